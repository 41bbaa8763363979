//! An NBD server in a thread, as good or as bad as a test wants it.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use heliostat_nbd::codec::{
    BASE_ALLOCATION, CLIENT_FLAGS_BYTES, ChunkHeader, Fields, GREETING_MAGIC, OPTION_HEADER_BYTES,
    OPTION_MAGIC, OptionHeader, OptionReplyHeader, REQUEST_BYTES, RequestHeader, allocation, chunk,
    command, command_flag, handshake, info, option, option_reply, transmission, write_simple_reply,
};

use crate::tests::bench::Scratch;

/// All that a server can do.
pub(crate) const ABLE: u16 = transmission::HAS_FLAGS
    | transmission::SEND_FLUSH
    | transmission::SEND_FUA
    | transmission::SEND_WRITE_ZEROES
    | transmission::SEND_FAST_ZERO
    | transmission::CAN_MULTI_CONN;

/// The number of the metadata context.
const CONTEXT: u32 = 5;

/// The unit in which it says what is zero.
const STATUS_BYTES: usize = 4096;

/// What a server is like.
#[derive(Clone, Debug)]
pub(crate) struct Nature {
    pub(crate) size_bytes: u64,
    pub(crate) flags: u16,
    pub(crate) block_sizes: Option<[u32; 3]>,
    /// Structured replies, with `base:allocation`.
    pub(crate) structured: bool,
    /// The only name that is known.
    pub(crate) export: &'static str,
    /// Requests that came together are answered last first, and reads in chunks, last first.
    pub(crate) disorderly: bool,
    /// What happens to the request of this number, counted over all connections.
    pub(crate) lie: Option<(u64, Lie)>,
    /// This command is answered with this error number.
    pub(crate) error: Option<(u16, u32)>,
    /// This command is not answered.
    pub(crate) silent: Option<u16>,
}

/// How an answer is wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lie {
    /// It begins with anything.
    WrongMagic,
    /// It is to a request that was never made.
    WrongCookie,
    /// Data goes on behind what was asked for.
    TooMuch,
    /// Data is missing.
    TooLittle,
    /// It comes twice.
    Twice,
}

impl Default for Nature {
    fn default() -> Self {
        Self {
            size_bytes: 8 << 20,
            flags: ABLE,
            block_sizes: Some([512, 4096, 1 << 20]),
            structured: true,
            export: "disk",
            disorderly: false,
            lie: None,
            error: None,
            silent: None,
        }
    }
}

/// A running server; gone when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    scratch: Scratch,
    world: Arc<Mutex<World>>,
    listening: Option<JoinHandle<()>>,
}

/// What its threads share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) nature: Nature,
    pub(crate) bytes: Vec<u8>,
    /// What is there after a power cut.
    durable: Vec<u8>,
    /// Nobody is let in.
    is_down: bool,
    is_over: bool,
    streams: Vec<UnixStream>,
    /// After how many bytes of answers the next connections break.
    pub(crate) cuts: VecDeque<usize>,
    /// The requests so far.
    pub(crate) requests: Vec<RequestHeader>,
    pub(crate) connection_count: usize,
    pub(crate) goodbye_count: usize,
}

impl Server {
    pub(crate) fn start(nature: Nature) -> Self {
        let scratch = Scratch::new();
        let listener = UnixListener::bind(scratch.path("nbd.sock")).unwrap();
        let size = usize::try_from(nature.size_bytes).unwrap();
        let world = Arc::new(Mutex::new(World {
            nature,
            bytes: vec![0; size],
            durable: vec![0; size],
            is_down: false,
            is_over: false,
            streams: Vec::new(),
            cuts: VecDeque::new(),
            requests: Vec::new(),
            connection_count: 0,
            goodbye_count: 0,
        }));
        let shared = Arc::clone(&world);
        Self {
            scratch,
            world,
            listening: Some(thread::spawn(move || listen(&listener, &shared))),
        }
    }

    fn path(&self) -> PathBuf {
        self.scratch.path("nbd.sock")
    }

    pub(crate) fn uri(&self) -> String {
        let export = self.world().nature.export;
        format!("nbd+unix:///{export}?socket={}", self.path().display())
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Breaks all connections, and lets nobody in.
    pub(crate) fn go_down(&self) {
        let mut world = self.world();
        world.is_down = true;
        world.break_connections();
    }

    /// Loses what was not flushed.
    pub(crate) fn lose_cache(&self) {
        let mut world = self.world();
        world.bytes = world.durable.clone();
    }

    /// Waits until all clients are gone.
    pub(crate) fn stop(self) -> Arc<Mutex<World>> {
        Arc::clone(&self.world)
    }

    pub(crate) fn come_back(&self) {
        self.world().is_down = false;
    }

    /// Breaks all connections, and lets clients in again at once.
    pub(crate) fn break_connections(&self) {
        self.world().break_connections();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.world().is_over = true;
        self.world().break_connections();
        let _woken = UnixStream::connect(self.path());
        if let Some(listening) = self.listening.take() {
            listening.join().unwrap();
        }
    }
}

impl World {
    fn break_connections(&mut self) {
        for stream in self.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn listen(listener: &UnixListener, world: &Arc<Mutex<World>>) {
    let mut clients = Vec::new();
    for stream in listener.incoming() {
        let stream = stream.unwrap();
        let mut shared = world.lock().unwrap();
        if shared.is_over {
            break;
        }
        if shared.is_down {
            continue;
        }
        shared.streams.push(stream.try_clone().unwrap());
        shared.connection_count += 1;
        let budget = shared.cuts.pop_front();
        drop(shared);
        let world = Arc::clone(world);
        clients.push(thread::spawn(move || {
            let mut client = Client {
                input: BufReader::with_capacity(1 << 20, stream.try_clone().unwrap()),
                output: stream,
                world,
                is_structured: false,
                budget: usize::MAX,
            };
            if client.negotiate().is_ok() {
                client.budget = budget.unwrap_or(usize::MAX);
                // A connection that breaks is no failure of this server.
                let _ = client.serve();
            }
            let _ = client.output.shutdown(Shutdown::Both);
        }));
    }
    for client in clients {
        client.join().unwrap();
    }
}

struct Client {
    input: BufReader<UnixStream>,
    output: UnixStream,
    world: Arc<Mutex<World>>,
    is_structured: bool,
    /// After how many bytes the connection breaks.
    budget: usize,
}

impl Client {
    fn nature(&self) -> Nature {
        self.world.lock().unwrap().nature.clone()
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let len = bytes.len().min(self.budget);
        self.output.write_all(&bytes[..len])?;
        self.budget -= len;
        if len < bytes.len() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    fn reply(&mut self, option: u32, kind: u32, parts: &[&[u8]]) -> io::Result<()> {
        let data = parts.concat();
        let mut bytes = Vec::new();
        OptionReplyHeader {
            option,
            kind,
            len_bytes: u32::try_from(data.len()).unwrap(),
        }
        .write(&mut bytes);
        bytes.extend(data);
        self.send(&bytes)
    }

    fn negotiate(&mut self) -> io::Result<()> {
        let nature = self.nature();
        let mut greeting = GREETING_MAGIC.to_be_bytes().to_vec();
        greeting.extend(OPTION_MAGIC.to_be_bytes());
        greeting.extend((handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes());
        self.send(&greeting)?;
        self.input.read_exact(&mut [0; CLIENT_FLAGS_BYTES])?;
        loop {
            let mut header = [0; OPTION_HEADER_BYTES];
            self.input.read_exact(&mut header)?;
            let header = OptionHeader::parse(&header).unwrap();
            let mut data = vec![0; usize::try_from(header.len_bytes).unwrap()];
            self.input.read_exact(&mut data)?;
            let option = header.option;
            match option {
                option::STRUCTURED_REPLY if nature.structured => {
                    self.is_structured = true;
                    self.reply(option, option_reply::ACK, &[])?;
                }
                option::SET_META_CONTEXT => {
                    let parts = [&CONTEXT.to_be_bytes(), BASE_ALLOCATION.as_bytes()];
                    self.reply(option, option_reply::META_CONTEXT, &parts)?;
                    self.reply(option, option_reply::ACK, &[])?;
                }
                option::GO if Fields(&data).string() == Some(nature.export) => {
                    let (size, flags) = (nature.size_bytes, nature.flags);
                    let parts = [
                        &info::EXPORT.to_be_bytes()[..],
                        &size.to_be_bytes(),
                        &flags.to_be_bytes(),
                    ];
                    self.reply(option, option_reply::INFO, &parts)?;
                    if let Some(sizes) = nature.block_sizes {
                        let sizes = sizes.map(u32::to_be_bytes).concat();
                        let parts = [&info::BLOCK_SIZE.to_be_bytes()[..], &sizes];
                        self.reply(option, option_reply::INFO, &parts)?;
                    }
                    return self.reply(option, option_reply::ACK, &[]);
                }
                option::GO => self.reply(option, option_reply::ERR_UNKNOWN, &[])?,
                option::LIST => {
                    let name = nature.export.as_bytes();
                    let len = u32::try_from(name.len()).unwrap().to_be_bytes();
                    self.reply(option, option_reply::SERVER, &[&len, name])?;
                    self.reply(option, option_reply::ACK, &[])?;
                }
                option::ABORT => {
                    self.world.lock().unwrap().goodbye_count += 1;
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                _ => self.reply(option, option_reply::ERR_UNSUP, &[])?,
            }
        }
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            let mut answers = vec![self.request()?];
            while self.nature().disorderly && self.input.buffer().len() >= REQUEST_BYTES {
                answers.push(self.request()?);
            }
            for answer in answers.into_iter().rev() {
                self.send(&answer)?;
            }
        }
    }

    /// Carries out a request; the answer.
    fn request(&mut self) -> io::Result<Vec<u8>> {
        if self.input.fill_buf()?.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut header = [0; REQUEST_BYTES];
        self.input.read_exact(&mut header)?;
        let request = RequestHeader::parse(&header).unwrap();
        let mut payload = Vec::new();
        if request.command == command::WRITE {
            payload.resize(usize::try_from(request.len_bytes).unwrap(), 0);
            self.input.read_exact(&mut payload)?;
        }
        let mut world = self.world.lock().unwrap();
        if request.command == command::DISC {
            world.goodbye_count += 1;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let number = u64::try_from(world.requests.len()).unwrap();
        world.requests.push(request);
        let nature = world.nature.clone();
        let lie = nature.lie.filter(|(at, _)| *at == number);
        if nature.silent == Some(request.command) {
            return Ok(Vec::new());
        }
        if let Some((_, error)) = nature
            .error
            .filter(|(command, _)| *command == request.command)
        {
            return Ok(self.done(request.cookie, error));
        }
        world.check(&request);
        let start = usize::try_from(request.offset_bytes).unwrap();
        let range = start..start + usize::try_from(request.len_bytes).unwrap();
        match request.command {
            command::WRITE => world.store(&request, range, &payload),
            command::WRITE_ZEROES => {
                let zeros = vec![0; range.len()];
                world.store(&request, range, &zeros);
            }
            command::FLUSH => world.durable = world.bytes.clone(),
            command::READ => {
                let bytes = world.bytes[range].to_vec();
                drop(world);
                return Ok(self.data(&request, &bytes, &nature, lie.map(|(_, lie)| lie)));
            }
            command::BLOCK_STATUS => {
                let extents = status(&world.bytes[range]);
                drop(world);
                return Ok(chunk_of(
                    request.cookie,
                    chunk::BLOCK_STATUS,
                    true,
                    &[&CONTEXT.to_be_bytes(), &extents],
                ));
            }
            other => panic!("command {other}"),
        }
        drop(world);
        let cookie = match lie {
            Some((_, Lie::WrongCookie)) => request.cookie ^ 1 << 33,
            _ => request.cookie,
        };
        let mut answer = self.done(cookie, 0);
        match lie {
            Some((_, Lie::WrongMagic)) => answer[0] ^= 1,
            Some((_, Lie::Twice)) => answer.extend(answer.clone()),
            _ => {}
        }
        Ok(answer)
    }

    fn done(&self, cookie: u64, error: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !self.is_structured {
            write_simple_reply(cookie, error, &mut bytes);
            return bytes;
        }
        if error == 0 {
            return chunk_of(cookie, chunk::NONE, true, &[]);
        }
        let payload = [&error.to_be_bytes()[..], &2_u16.to_be_bytes(), b"no"];
        chunk_of(cookie, chunk::ERROR, true, &payload)
    }

    fn data(
        &self,
        request: &RequestHeader,
        bytes: &[u8],
        nature: &Nature,
        lie: Option<Lie>,
    ) -> Vec<u8> {
        let mut answer = Vec::new();
        if !self.is_structured {
            write_simple_reply(request.cookie, 0, &mut answer);
            answer.extend(bytes);
            return answer;
        }
        let mut bytes = bytes.to_vec();
        match lie {
            Some(Lie::TooMuch) => bytes.extend([0x66; 512]),
            Some(Lie::TooLittle) => bytes.truncate(bytes.len() - 1),
            _ => {}
        }
        let piece = if nature.disorderly { 1024 } else { bytes.len() };
        let count = bytes.len().div_ceil(piece);
        for (index, part) in bytes.chunks(piece).enumerate().rev() {
            let offset = request.offset_bytes + u64::try_from(index * piece).unwrap();
            // The last chunk that is sent is the first one of the data.
            let done = index == 0;
            let is_hole = nature.disorderly && count > 1 && part.iter().all(|&byte| byte == 0);
            let len = u32::try_from(part.len()).unwrap().to_be_bytes();
            let (kind, rest) = if is_hole {
                (chunk::OFFSET_HOLE, &len[..])
            } else {
                (chunk::OFFSET_DATA, part)
            };
            answer.extend(chunk_of(
                request.cookie,
                kind,
                done,
                &[&offset.to_be_bytes(), rest],
            ));
        }
        answer
    }
}

impl World {
    /// A client keeps to what was agreed upon.
    fn check(&self, request: &RequestHeader) {
        let nature = &self.nature;
        let end = request.offset_bytes + u64::from(request.len_bytes);
        assert!(end <= nature.size_bytes, "{request:?}");
        let [smallest, _, largest] = nature.block_sizes.unwrap_or([1, 4096, 32 << 20]);
        assert!(end.is_multiple_of(u64::from(smallest)), "{request:?}");
        assert!(request.len_bytes.is_multiple_of(smallest), "{request:?}");
        let has_payload = [command::READ, command::WRITE].contains(&request.command);
        assert!(!has_payload || request.len_bytes <= largest, "{request:?}");
        let needs = |flag: u16, ability: u16| {
            assert!(
                request.flags & flag == 0 || nature.flags & ability != 0,
                "{request:?}"
            );
        };
        needs(command_flag::FUA, transmission::SEND_FUA);
        needs(command_flag::FAST_ZERO, transmission::SEND_FAST_ZERO);
        if request.command == command::FLUSH {
            assert_eq!((request.offset_bytes, request.len_bytes), (0, 0));
        }
    }

    fn store(&mut self, request: &RequestHeader, range: std::ops::Range<usize>, bytes: &[u8]) {
        self.bytes[range.clone()].copy_from_slice(bytes);
        if request.flags & command_flag::FUA != 0 {
            self.durable[range].copy_from_slice(bytes);
        }
    }
}

fn chunk_of(cookie: u64, kind: u16, done: bool, parts: &[&[u8]]) -> Vec<u8> {
    let payload = parts.concat();
    let mut bytes = Vec::new();
    ChunkHeader {
        flags: u16::from(done) * chunk::FLAG_DONE,
        kind,
        cookie,
        len_bytes: u32::try_from(payload.len()).unwrap(),
    }
    .write(&mut bytes);
    bytes.extend(payload);
    bytes
}

/// The extents of `base:allocation`: what is zero is a hole.
fn status(bytes: &[u8]) -> Vec<u8> {
    let mut extents = Vec::new();
    for part in bytes.chunks(STATUS_BYTES) {
        let flags = if part.iter().all(|&byte| byte == 0) {
            allocation::HOLE | allocation::ZERO
        } else {
            0
        };
        extents.extend(u32::try_from(part.len()).unwrap().to_be_bytes());
        extents.extend(flags.to_be_bytes());
    }
    extents
}
