//! The serve loop: listening sockets and connections on the array's thread.
//!
//! Once a turn each ready connection is received from with one call, all that came is handled, and
//! at the end of the turn all that is to be said to a client is sent with one call. The data of a
//! read goes from the engine's buffer to the socket, the payload of a large write from the socket
//! to the engine's buffer; only small payloads that come in together with other requests are copied
//! once.
//!
//! Whatever a client does, it holds bounded memory: how many connections there are, how many
//! requests each has in flight, how many bytes of replies wait, and how many bytes of the engine's
//! buffers it occupies is limited, and what goes beyond waits in the client's socket.

mod budget;
mod connection;
mod input;
mod output;
mod socket;

use std::fmt;
use std::os::fd::AsFd;
use std::sync::Arc;

use heliostat_nbd::uri::{Endpoint, ExportUri};
use heliostat_runtime::{Answer, ClientKey, Context, Export, Interest, Place, Ready, RuntimeError};
use heliostat_types::{Duration, ErrorKind, Instant, StreamId};
use stdx::units::format_size;

use self::budget::Budget;
use self::connection::{Connection, Identity, Wires};
use self::input::InputPool;
use self::socket::{AcceptError, Listener};
use crate::session::ExportInfo;

/// How many clients are served at once over all sockets; another one is turned away. Each may hold
/// an input buffer of 256 KiB.
const CONNECTIONS_MAX: usize = 128;
/// How many times as many connections as there are places left a client may have: 112 where nobody
/// else is there, which is more than any program needs, and leaves places for others.
const CLIENT_PLACES: usize = 7;
/// How many clients are let in per socket and turn, so that a crowd at the door does not keep those
/// inside waiting.
const ACCEPTS_MAX: usize = 16;
/// How long nobody is let in after the system had no descriptor for a client: until one may have
/// become free, and short enough for nobody to notice.
const ACCEPT_PAUSE: Duration = Duration::from_ms(100);
/// How long a client that was let in may take until it has chosen an export: long enough for any
/// network, and short enough that clients who say nothing do not hold all places for long.
const NEGOTIATION_MAX: Duration = Duration::from_secs(10);
/// The token bit of a listening socket; the rest is its index.
const LISTENER_BIT: u32 = 1 << 31;
/// The token bit of the output descriptor of a connection that has two.
const OUTPUT_BIT: u32 = 1 << 30;

const READABLE: Interest = Interest {
    readable: true,
    writable: false,
};

/// Why an array cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Two URIs are the same.
    #[error("'{0}' is exported twice")]
    Twice(String),
    /// `stdio:` was given more than once.
    #[error("there is only one standard input: stdio: can be exported once")]
    StdioTwice,
}

/// Some URIs that share sockets.
#[derive(Debug)]
struct Door {
    endpoint: Endpoint,
    uris: Vec<ExportUri>,
    /// Made when it is known what the array is like.
    exports: Arc<[ExportInfo]>,
}

/// What the connections of an export share.
#[derive(Debug)]
struct Shared {
    pool: InputPool,
    budget: Budget,
}

/// An array as one or several NBD exports.
pub struct NbdExport {
    description: String,
    doors: Vec<Door>,
    /// `None` for one that broke.
    listeners: Vec<Option<Listener>>,
    connections: Vec<Option<Connection>>,
    /// Connections that something happened to in this turn, or that wait for something that is not
    /// told to them.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
    shared: Shared,
    next_stream: u64,
    /// Until when nobody is let in.
    accept_pause: Option<Instant>,
    /// How long a client may take until it has chosen an export.
    negotiation_max: Duration,
    /// When to look for those that took longer: never after the first of them is due.
    negotiation_deadline: Option<Instant>,
    stdio: Option<u32>,
    has_ended: bool,
    is_stopping: bool,
}

impl fmt::Debug for NbdExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NbdExport")
            .field("doors", &self.doors)
            .field("connections", &self.connections.iter().flatten().count())
            .finish_non_exhaustive()
    }
}

impl NbdExport {
    /// Exports an array at these places, with a text for people and so much memory for buffers: the
    /// size of the engine's arena. Nothing is opened before [`Export::start`].
    ///
    /// # Errors
    /// Where two URIs cannot be served together.
    pub fn new(
        uris: Vec<ExportUri>,
        description: String,
        memory_bytes: u64,
    ) -> Result<Self, ServeError> {
        let mut doors: Vec<Door> = Vec::new();
        for uri in uris {
            let door = doors.iter_mut().find(|door| door.endpoint == uri.endpoint);
            match door {
                Some(door) if door.uris.contains(&uri) => {
                    return Err(ServeError::Twice(uri.to_string()));
                }
                Some(door) if door.endpoint == Endpoint::Stdio => {
                    return Err(ServeError::StdioTwice);
                }
                Some(door) => door.uris.push(uri),
                None => doors.push(Door {
                    endpoint: uri.endpoint.clone(),
                    uris: vec![uri],
                    exports: Arc::new([]),
                }),
            }
        }
        Ok(Self {
            description,
            doors,
            listeners: Vec::new(),
            connections: Vec::new(),
            touched: Vec::new(),
            is_touched: Vec::new(),
            shared: Shared {
                pool: InputPool::default(),
                budget: Budget::new(memory_bytes),
            },
            next_stream: 0,
            accept_pause: None,
            negotiation_max: NEGOTIATION_MAX,
            negotiation_deadline: None,
            stdio: None,
            has_ended: false,
            is_stopping: false,
        })
    }

    /// What clients see at one door: the array under each of the door's names, or its volumes.
    fn exports(&self, door: &Door, context: &Context<'_>) -> Arc<[ExportInfo]> {
        let array = context.array();
        let whole = |uri: &ExportUri| ExportInfo {
            name: uri.export.clone(),
            description: self.description.clone(),
            size_bytes: array.size_bytes,
            block_preferred_bytes: array.block_preferred_bytes,
            read_only: array.read_only,
            rotational: array.rotational,
            place: Place::Whole,
        };
        let Some(volumes) = context.volumes() else {
            return door.uris.iter().map(whole).collect();
        };
        let volumes = volumes.into_iter().map(|volume| ExportInfo {
            description: format!("{} of {}", format_size(volume.size_bytes), self.description),
            name: volume.name,
            size_bytes: volume.size_bytes,
            place: volume.place,
            block_preferred_bytes: array.block_preferred_bytes,
            read_only: array.read_only,
            rotational: array.rotational,
        });
        volumes.collect()
    }

    fn open_door(&mut self, context: &mut Context<'_>, index: usize) -> Result<(), RuntimeError> {
        let door = &self.doors[index];
        let listeners = match &door.endpoint {
            Endpoint::Unix(path) => vec![Listener::bind_unix(path, index)?],
            Endpoint::Tcp { host, port } => vec![Listener::bind_tcp(host, *port, index)?],
            Endpoint::Inherited => Listener::inherit(index)?,
            Endpoint::Stdio => {
                let (wires, key) = socket::stdio()?;
                self.stdio = Some(self.add_connection(context, wires, key, index));
                return Ok(());
            }
        };
        self.listeners.extend(listeners.into_iter().map(Some));
        Ok(())
    }

    fn accept(&mut self, context: &mut Context<'_>, index: usize) {
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = self.listeners.get(index).and_then(Option::as_ref) else {
                return;
            };
            let door = listener.door;
            match listener.accept() {
                Ok(Some((fd, key))) => {
                    // Closed at once, the client learns it at once.
                    if self.has_place(&key) {
                        let wires = Wires {
                            input: fd,
                            output: None,
                        };
                        let index = self.add_connection(context, wires, key, door);
                        self.limit_negotiation(index, context.now());
                    }
                }
                Ok(None) => return,
                Err(AcceptError::NoRoom) => {
                    // The socket stays ready, and the loop would turn as fast as it can.
                    self.accept_pause = Some(context.now() + ACCEPT_PAUSE);
                    for listener in self.listeners.iter().flatten() {
                        context.unwatch(listener.fd());
                    }
                    return;
                }
                Err(AcceptError::Broken(errno)) => {
                    context.unwatch(listener.fd());
                    self.listeners[index] = None;
                    let uri = &self.doors[door].uris[0];
                    context.log(format!(
                        "NBD: no client is let in at {uri} any more: accept: {errno}"
                    ));
                    return;
                }
            }
        }
    }

    /// Whether one more connection of this client may come.
    fn has_place(&self, key: &ClientKey) -> bool {
        let connections = || self.connections.iter().flatten();
        let free = CONNECTIONS_MAX.saturating_sub(connections().count());
        let of_client = connections().filter(|connection| connection.key == *key);
        of_client.count() < free * CLIENT_PLACES
    }

    /// A client on standard input is not limited: it takes nobody's place.
    fn limit_negotiation(&mut self, index: u32, now: Instant) {
        let until = now + self.negotiation_max;
        let connection = self.connections[as_index(index)].as_mut();
        connection
            .expect("it was just added")
            .limit_negotiation(until);
        // All have the same time, so that the first that was let in is the first that is due.
        self.negotiation_deadline.get_or_insert(until);
    }

    /// Ends the connections that have not chosen an export in time.
    fn end_negotiations(&mut self, context: &mut Context<'_>) {
        self.negotiation_deadline = None;
        for place in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[place] else {
                continue;
            };
            let Some(until) = connection.negotiates_until() else {
                continue;
            };
            if until > context.now() {
                let earliest = self.negotiation_deadline.unwrap_or(until);
                self.negotiation_deadline = Some(earliest.min(until));
                continue;
            }
            close_connection(connection, context, &mut self.shared);
            let limit = self.negotiation_max;
            context.log(format!(
                "NBD: a connection was closed: it chose no export within {limit}"
            ));
            self.touch(as_token(place));
        }
    }

    fn watch_listeners(&self, context: &mut Context<'_>) -> Result<(), RuntimeError> {
        for (index, listener) in self.listeners.iter().enumerate() {
            let Some(listener) = listener else {
                continue;
            };
            let token = LISTENER_BIT | as_token(index);
            context
                .watch(listener.fd(), token, READABLE)
                .map_err(|error| RuntimeError(format!("watching a listening socket: {error}")))?;
        }
        Ok(())
    }

    /// Begins a connection; says its index.
    fn add_connection(
        &mut self,
        context: &mut Context<'_>,
        wires: Wires,
        key: ClientKey,
        door: usize,
    ) -> u32 {
        let free = self.connections.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.connections.push(None);
            self.is_touched.push(false);
            self.connections.len() - 1
        });
        let index = as_token(place);
        let identity = Identity {
            peer: context.join(key.clone()),
            stream: StreamId(self.next_stream),
            index,
        };
        self.next_stream += 1;
        let exports = Arc::clone(&self.doors[door].exports);
        let mut connection = Connection::new(wires, (key, identity), door, exports);
        if self.is_stopping {
            connection.begin_stop();
        }
        self.connections[place] = Some(connection);
        self.touch(index);
        index
    }

    fn touch(&mut self, index: u32) {
        let is_touched = &mut self.is_touched[as_index(index)];
        if !*is_touched {
            *is_touched = true;
            self.touched.push(index);
        }
    }

    /// Sends and resumes until neither leads to anything: what one connection sends may free the
    /// memory that another waits for.
    fn settle(&mut self, context: &mut Context<'_>) {
        let mut has_moved = true;
        while has_moved {
            has_moved = false;
            for index in &self.touched {
                if let Some(connection) = &mut self.connections[as_index(*index)] {
                    connection.send(context, &mut self.shared);
                }
            }
            for index in &self.touched {
                if let Some(connection) = &mut self.connections[as_index(*index)] {
                    has_moved |= connection.resume(context, &mut self.shared);
                }
            }
        }
    }

    /// Closes the connections that are over, and watches the others for what they need. Those that
    /// are paused stay touched.
    fn update_watches(&mut self, context: &mut Context<'_>) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.retain(|index| {
            let place = as_index(*index);
            let Some(connection) = &mut self.connections[place] else {
                self.is_touched[place] = false;
                return false;
            };
            if connection.is_finished() || update_watch(connection, *index, context).is_err() {
                close_connection(connection, context, &mut self.shared);
            }
            if connection.is_finished() {
                if let Some(reason) = connection.violation() {
                    context.log(format!("NBD: a connection was closed: {reason}"));
                }
                context.leave(connection.peer());
                self.connections[place] = None;
                self.has_ended |= self.stdio == Some(*index);
                self.is_touched[place] = false;
                return false;
            }
            self.is_touched[place] = connection.is_paused();
            self.is_touched[place]
        });
        // Nothing above touches a connection, so nothing was pushed meanwhile.
        self.touched = touched;
    }
}

/// Watches a connection for what it needs now; mostly that is what it needed before.
fn update_watch(
    connection: &mut Connection,
    index: u32,
    context: &mut Context<'_>,
) -> std::io::Result<()> {
    let interest = connection.interest();
    for (which, token) in [index, index | OUTPUT_BIT].into_iter().enumerate() {
        if interest[which] == connection.watched[which] {
            continue;
        }
        let fd = if which == 0 {
            connection.wires.input.as_fd()
        } else {
            connection.wires.output()
        };
        match interest[which] {
            Some(interest) => context.watch(fd, token, interest)?,
            None => context.unwatch(fd),
        }
        connection.watched[which] = interest[which];
    }
    Ok(())
}

/// Ends a connection at once: what it holds is given back, its descriptors are not watched any
/// more.
fn close_connection(connection: &mut Connection, context: &mut Context<'_>, shared: &mut Shared) {
    connection.break_off(context, shared);
    if connection.watched[0].take().is_some() {
        context.unwatch(connection.wires.input.as_fd());
    }
    if connection.watched[1].take().is_some() {
        context.unwatch(connection.wires.output());
    }
}

impl Export for NbdExport {
    fn check(&self) -> Result<(), RuntimeError> {
        for door in &self.doors {
            match &door.endpoint {
                Endpoint::Unix(path) => socket::check_unix(path)?,
                Endpoint::Tcp { host, port } => Listener::bind_tcp(host, *port, 0).map(drop)?,
                Endpoint::Inherited => Listener::inherit(0).map(drop)?,
                Endpoint::Stdio => socket::stdio().map(drop)?,
            }
        }
        Ok(())
    }

    fn start(&mut self, context: &mut Context<'_>) -> Result<(), RuntimeError> {
        for index in 0..self.doors.len() {
            self.doors[index].exports = self.exports(&self.doors[index], context);
            self.open_door(context, index)?;
        }
        self.watch_listeners(context)?;
        // A client on standard input is there already, and nothing else begins the first turn.
        self.on_turn_end(context);
        Ok(())
    }

    fn on_ready(&mut self, context: &mut Context<'_>, token: u32, ready: Ready) {
        if token & LISTENER_BIT != 0 {
            self.accept(context, as_index(token & !LISTENER_BIT));
            return;
        }
        let index = token & !OUTPUT_BIT;
        let place = self.connections.get_mut(as_index(index));
        let Some(connection) = place.and_then(Option::as_mut) else {
            return;
        };
        let is_output = token & OUTPUT_BIT != 0 || connection.wires.output.is_none();
        let is_input = token & OUTPUT_BIT == 0;
        if is_output && (ready.writable || ready.hangup) {
            connection.on_output();
        }
        if is_input && (ready.readable || ready.hangup) {
            connection.on_input(context, &mut self.shared, ready.hangup);
        }
        self.touch(index);
    }

    fn on_complete(
        &mut self,
        context: &mut Context<'_>,
        tag: u64,
        result: Result<Answer, ErrorKind>,
    ) {
        let index = u32::try_from(tag >> 32).expect("tags are made of two 32-bit halves");
        let tag = u32::try_from(tag & u64::from(u32::MAX)).expect("masked");
        let connection = self.connections[as_index(index)]
            .as_mut()
            .expect("a connection stays until its requests are answered");
        connection.on_complete(context, &mut self.shared, crate::session::Tag(tag), result);
        self.touch(index);
    }

    fn on_volumes_changed(&mut self, context: &mut Context<'_>) {
        for index in 0..self.doors.len() {
            self.doors[index].exports = self.exports(&self.doors[index], context);
        }
        for connection in self.connections.iter_mut().flatten() {
            connection.set_exports(Arc::clone(&self.doors[connection.door].exports));
        }
    }

    fn on_memory_freed(&mut self, _context: &mut Context<'_>) {
        // Those that wait for it are touched, and tried at the end of the turn.
    }

    fn on_turn_end(&mut self, context: &mut Context<'_>) {
        if self.touched.is_empty() {
            return;
        }
        self.settle(context);
        self.update_watches(context);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let deadlines = [self.accept_pause, self.negotiation_deadline];
        deadlines.into_iter().flatten().min()
    }

    fn on_deadline(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        if is_due(self.negotiation_deadline) {
            self.end_negotiations(context);
        }
        if is_due(self.accept_pause) {
            // Where they cannot be watched now, they can be a moment later.
            self.accept_pause = match self.watch_listeners(context) {
                Ok(()) => None,
                Err(_) => Some(now + ACCEPT_PAUSE),
            };
        }
    }

    fn begin_stop(&mut self, context: &mut Context<'_>) {
        self.is_stopping = true;
        self.accept_pause = None;
        for listener in self.listeners.drain(..).flatten() {
            context.unwatch(listener.fd());
        }
        for connection in self.connections.iter_mut().flatten() {
            connection.begin_stop();
        }
    }

    fn is_drained(&self) -> bool {
        let mut connections = self.connections.iter().flatten();
        connections.all(Connection::is_drained)
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn close(&mut self) {
        self.listeners.clear();
        self.connections.clear();
    }

    fn names(&self) -> Vec<String> {
        let uris = self.doors.iter().flat_map(|door| &door.uris);
        uris.map(|uri| uri.export.clone()).collect()
    }

    fn addresses(&self) -> Vec<String> {
        let uris = self.doors.iter().flat_map(|door| &door.uris);
        uris.map(ToString::to_string).collect()
    }
}

fn as_token(index: usize) -> u32 {
    u32::try_from(index).expect("there are few sockets")
}

fn as_index(token: u32) -> usize {
    usize::try_from(token).expect("a usize holds 32 bits")
}

#[cfg(test)]
mod tests;
