//! A served array for tests: the loop on a thread of its own, and an export that does what the test
//! says.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use heliostat_engine::Layout;
use heliostat_leg::LegSpec;
use heliostat_types::{ErrorKind, Extent, StreamId};

use crate::waker::Waker;
use crate::{
    Answer, ArrayOptions, ClientKey, Context, CreateLeg, CreateOptions, Export, Handle, Interest,
    Peer, Places, Progress, Ready, RequestKind, RuntimeError, Server, Stopped, Trust,
};

use crate::scratch::Scratch;

/// Size of the legs of most tests.
pub(crate) const LEG_BYTES: u64 = 4 << 20;

/// What a test asks of its export.
#[derive(Debug)]
pub(crate) enum Job {
    /// Read this.
    Read(Extent),
    /// Fill this with a byte.
    Write(Extent, u8),
    /// Make all of it durable.
    Flush,
    /// Use the volume of this name from now on.
    Enter(String),
    /// Use it no more.
    Leave,
    /// From now on be like a client that never takes its answers.
    GetStuck,
    /// End by itself, as a client on standard input does.
    End,
    /// Take the whole daemon down.
    Panic,
}

/// What a request came to: the bytes of a read, nothing for others.
pub(crate) type Outcome = Result<Vec<u8>, ErrorKind>;

#[derive(Debug)]
struct TestExport {
    jobs: Arc<Mutex<VecDeque<Job>>>,
    waker: Arc<Waker>,
    outcomes: Sender<Outcome>,
    in_flight: u64,
    /// Who it is in a volume.
    entered: Option<Peer>,
    is_stuck: bool,
    has_ended: bool,
    fails: Fails,
}

/// What an export cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fails {
    /// It can do all.
    Nowhere,
    /// It says so before anything was done.
    Early,
    /// It finds out late.
    Late,
}

impl TestExport {
    fn fail_at(&self, when: Fails) -> Result<(), RuntimeError> {
        if self.fails == when {
            return Err(RuntimeError("the address is taken".to_owned()));
        }
        Ok(())
    }

    fn submit(&mut self, context: &mut Context<'_>, kind: RequestKind) {
        let peer = self.peer(context);
        self.in_flight += 1;
        context.submit(self.in_flight, peer, StreamId(0), kind);
    }

    fn peer(&self, context: &mut Context<'_>) -> Peer {
        let entered = self.entered;
        entered.unwrap_or_else(|| context.join(ClientKey::Process(1)))
    }

    fn enter(&mut self, context: &mut Context<'_>, name: &str) {
        let volumes = context.volumes().expect("there are volumes");
        let mut volumes = volumes.into_iter();
        let volume = volumes.find(|volume| volume.name == name);
        let mut peer = context.join(ClientKey::Process(1));
        let place = volume.expect("it is there").place;
        assert!(context.enter(&mut peer, place), "it is open");
        self.entered = Some(peer);
    }

    fn carry_out(&mut self, context: &mut Context<'_>, job: Job) {
        match job {
            Job::Read(extent) => self.submit(context, RequestKind::Read { extent }),
            Job::Write(extent, byte) => {
                let peer = self.peer(context);
                let buffer = context
                    .alloc_write(peer, extent)
                    .expect("memory is not short in tests");
                context.bytes_mut(buffer.data).fill(byte);
                let kind = RequestKind::Write {
                    extent,
                    buffer: buffer.buffer,
                    fua: false,
                };
                self.submit(context, kind);
            }
            Job::Flush => self.submit(context, RequestKind::Flush),
            Job::Enter(name) => self.enter(context, &name),
            Job::Leave => {
                let peer = self.entered.take().expect("it has entered");
                context.leave(peer);
            }
            Job::GetStuck => self.is_stuck = true,
            Job::End => self.has_ended = true,
            Job::Panic => panic!("as the test wants it"),
        }
    }
}

impl Export for TestExport {
    fn check(&self) -> Result<(), RuntimeError> {
        self.fail_at(Fails::Early)
    }

    fn start(&mut self, context: &mut Context<'_>) -> Result<(), RuntimeError> {
        self.fail_at(Fails::Late)?;
        let interest = Interest {
            readable: true,
            writable: false,
        };
        context
            .watch(self.waker.as_fd(), 7, interest)
            .expect("an eventfd can be watched");
        Ok(())
    }

    fn on_ready(&mut self, context: &mut Context<'_>, token: u32, ready: Ready) {
        assert!(token == 7 && ready.readable);
        self.waker.clear();
        loop {
            let job = self.jobs.lock().unwrap().pop_front();
            let Some(job) = job else { break };
            self.carry_out(context, job);
        }
    }

    fn on_complete(
        &mut self,
        context: &mut Context<'_>,
        _tag: u64,
        result: Result<Answer, ErrorKind>,
    ) {
        self.in_flight -= 1;
        let outcome = result.map(|answer| match answer {
            Answer::Data(data) => {
                let bytes = context.data(&data).into_owned();
                context.release_data(&data);
                bytes
            }
            Answer::Done | Answer::Status(_) => Vec::new(),
        });
        // A test that has seen enough may be gone.
        let _ = self.outcomes.send(outcome);
    }

    fn on_memory_freed(&mut self, _context: &mut Context<'_>) {}

    fn on_turn_end(&mut self, _context: &mut Context<'_>) {}

    fn begin_stop(&mut self, _context: &mut Context<'_>) {}

    fn is_drained(&self) -> bool {
        self.in_flight == 0 && !self.is_stuck
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn close(&mut self) {}

    fn names(&self) -> Vec<String> {
        vec!["test".to_owned()]
    }

    fn addresses(&self) -> Vec<String> {
        vec!["test".to_owned()]
    }
}

/// Lines that were said at the start.
#[derive(Debug, Default)]
pub(crate) struct Notes(pub(crate) Vec<String>);

impl Progress for Notes {
    fn note(&mut self, line: &str) {
        self.0.push(line.to_owned());
    }

    fn copied(&mut self, _done_bytes: u64, _total_bytes: u64) -> bool {
        true
    }
}

/// A running array.
#[derive(Debug)]
pub(crate) struct Rig {
    /// To ask it things.
    pub(crate) handle: Handle,
    /// What it said at the start.
    pub(crate) notes: Vec<String>,
    jobs: Arc<Mutex<VecDeque<Job>>>,
    waker: Arc<Waker>,
    outcomes: Receiver<Outcome>,
    thread: JoinHandle<Result<Stopped, RuntimeError>>,
}

impl Rig {
    /// Serves, or says why not.
    pub(crate) fn start(options: &ArrayOptions) -> Result<Self, RuntimeError> {
        Self::start_with(options, Fails::Nowhere)
    }

    /// The same, with an export that cannot start.
    pub(crate) fn start_with(options: &ArrayOptions, fails: Fails) -> Result<Self, RuntimeError> {
        let jobs = Arc::new(Mutex::new(VecDeque::new()));
        let waker = Arc::new(Waker::new().unwrap());
        let (sender, outcomes) = channel();
        let (report, reported) = channel();
        let options = options.clone();
        let (their_jobs, their_waker) = (Arc::clone(&jobs), Arc::clone(&waker));
        let thread = thread::spawn(move || {
            let export = TestExport {
                jobs: their_jobs,
                waker: their_waker,
                outcomes: sender,
                in_flight: 0,
                entered: None,
                is_stuck: false,
                has_ended: false,
                fails,
            };
            let mut notes = Notes::default();
            match Server::open(&options, vec![Box::new(export)], None, &mut notes) {
                Ok(server) => {
                    report.send(Ok((server.handle(), notes.0))).unwrap();
                    server.run()
                }
                Err(error) => {
                    report.send(Err(error)).unwrap();
                    Ok(Stopped { is_clean: false })
                }
            }
        });
        let (handle, notes) = match reported.recv().unwrap() {
            Ok(started) => started,
            Err(error) => {
                thread.join().unwrap().unwrap();
                return Err(error);
            }
        };
        Ok(Self {
            handle,
            notes,
            jobs,
            waker,
            outcomes,
            thread,
        })
    }

    /// Gives the export something to do.
    pub(crate) fn ask(&self, job: Job) {
        self.jobs.lock().unwrap().push_back(job);
        self.waker.wake();
    }

    /// What the next request to be answered came to.
    pub(crate) fn outcome(&self) -> Outcome {
        self.outcomes.recv().unwrap()
    }

    /// Gives the export a request, and waits for what it comes to.
    pub(crate) fn request(&self, job: Job) -> Outcome {
        self.ask(job);
        self.outcome()
    }

    /// Stops cleanly.
    pub(crate) fn stop(self) -> Stopped {
        self.handle.stop();
        self.end()
    }

    /// Waits for its end.
    pub(crate) fn end(self) -> Stopped {
        self.thread.join().unwrap().unwrap()
    }

    /// Ends it without a chance to do anything but to unwind.
    pub(crate) fn crash(self) {
        self.ask(Job::Panic);
        assert!(self.thread.join().is_err());
    }
}

/// Makes a mirror of the legs of these options.
pub(crate) fn make_array(options: &ArrayOptions) {
    crate::create(&new_array(options), &mut Notes::default()).unwrap();
}

/// A mirror of the legs of these options, without a bitmap.
pub(crate) fn new_array(options: &ArrayOptions) -> CreateOptions {
    let legs = options.legs.iter().cloned().map(|spec| CreateLeg {
        spec: Some(spec),
        write_mostly: false,
        failfast: false,
    });
    CreateOptions {
        name: options.name.clone(),
        host: None,
        layout: Layout::Mirror,
        legs: legs.collect(),
        spares: Vec::new(),
        bitmap: None,
        assume_clean: true,
        force: false,
        places: options.places.clone(),
    }
}

/// Legs in memory, things lying in `scratch`.
pub(crate) fn memory_options(scratch: &Scratch) -> ArrayOptions {
    options(scratch, &["mem:4MiB", "mem:4MiB", "mem:4MiB"])
}

/// Legs named by text, things lying in `scratch`.
pub(crate) fn options(scratch: &Scratch, legs: &[&str]) -> ArrayOptions {
    let legs = legs
        .iter()
        .map(|leg| LegSpec::parse(leg).unwrap())
        .collect();
    let directory = scratch.path().join("control");
    let places = Places::choose(Some(&directory)).unwrap();
    ArrayOptions {
        memory_bytes: heliostat_engine::Config::MEMORY_MIN_BYTES as u64,
        lock_memory: false,
        ..ArrayOptions::new("disk".to_owned(), legs, places)
    }
}

/// Sparse files as legs, things lying in `scratch`.
pub(crate) fn file_options(scratch: &Scratch, count: usize) -> ArrayOptions {
    let paths: Vec<String> = (0..count).map(|index| file(scratch, index)).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    options(scratch, &paths)
}

/// A sparse file for leg number `index`; one that is there stays as it is.
pub(crate) fn file(scratch: &Scratch, index: usize) -> String {
    let path = scratch.path().join(format!("leg{index}"));
    if !path.exists() {
        File::create(&path).unwrap().set_len(LEG_BYTES).unwrap();
    }
    path.to_str().unwrap().to_owned()
}

/// The same options, with other legs to believe.
pub(crate) fn trusting(options: &ArrayOptions, trust: Trust) -> ArrayOptions {
    ArrayOptions {
        trust,
        ..options.clone()
    }
}
