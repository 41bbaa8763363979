//! On whose account requests are done: the numbers of clients that are there now.
//!
//! A client has a number as long as one of its connections is open; then the next one may get it.
//! There are few numbers, so that what is kept for each stays small whoever connects; clients that
//! find none left share the first one.

use std::fs;

use heliostat_engine::FLOWS_MAX;
use heliostat_types::FlowId;

use crate::export::ClientKey;

/// What [`SHARED`] is called.
pub(crate) const NAME_OF_SHARED: &str = "others";

/// The account of the daemon itself, and of clients that found none left.
pub(crate) const SHARED: FlowId = FlowId(0);

/// Who has an account: a client of the whole array, or a volume, whoever uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Who {
    Client { export: usize, key: ClientKey },
    Volume(String),
}

/// One that has an account.
#[derive(Debug)]
struct Owner {
    who: Who,
    /// How many connections, or 1 for a volume.
    connections: usize,
    /// What people call it.
    name: String,
}

/// Which accounts are taken.
#[derive(Debug)]
pub(crate) struct Flows {
    /// By number; the first one is nobody's.
    owners: Vec<Option<Owner>>,
    /// Those that have left, until somebody closes their accounts.
    gone: Vec<(FlowId, String)>,
}

impl Flows {
    pub(crate) fn new() -> Self {
        Self {
            owners: vec![None],
            gone: Vec::new(),
        }
    }

    /// The account of a connection that begins; all of one client have the same.
    pub(crate) fn join(&mut self, export: usize, key: &ClientKey) -> FlowId {
        let key = key.clone();
        self.join_as(Who::Client { export, key })
    }

    /// The account of a volume that is there from now on, until it [leaves](Self::leave).
    pub(crate) fn join_volume(&mut self, name: &str) -> FlowId {
        self.join_as(Who::Volume(name.to_owned()))
    }

    fn join_as(&mut self, who: Who) -> FlowId {
        let mut free = None;
        for (index, owner) in self.owners.iter_mut().enumerate().skip(1) {
            match owner {
                Some(owner) if owner.who == who => {
                    owner.connections += 1;
                    return flow(index);
                }
                Some(_) => {}
                None => free = free.or(Some(index)),
            }
        }
        let index = free.unwrap_or(self.owners.len());
        if index >= FLOWS_MAX {
            return SHARED;
        }
        if index == self.owners.len() {
            self.owners.push(None);
        }
        let name = name_of(&who);
        self.owners[index] = Some(Owner {
            who,
            connections: 1,
            name,
        });
        flow(index)
    }

    /// A connection has ended that had this account, or a volume is gone, with nothing of it in
    /// flight.
    pub(crate) fn leave(&mut self, flow: FlowId) {
        if flow == SHARED {
            return;
        }
        let index = usize::try_from(flow.0).expect("a usize holds 32 bits");
        let owner = &mut self.owners[index];
        let joined = owner.as_mut().expect("who leaves has joined");
        joined.connections -= 1;
        if joined.connections == 0 {
            let gone = owner.take().expect("it was there");
            self.gone.push((flow, gone.name));
        }
    }

    /// The accounts that nobody has any more since this was last asked, and who had them. To be
    /// asked before anybody joins, who may get one of them.
    pub(crate) fn take_gone(&mut self) -> Vec<(FlowId, String)> {
        std::mem::take(&mut self.gone)
    }

    /// What the client of an account is called, and how many connections it has.
    pub(crate) fn describe(&self, flow: FlowId) -> (String, usize) {
        let index = usize::try_from(flow.0).expect("a usize holds 32 bits");
        match self.owners.get(index) {
            Some(Some(owner)) => (owner.name.clone(), owner.connections),
            _ => (NAME_OF_SHARED.to_owned(), 0),
        }
    }
}

/// What a client is called: `fio (4711)`, or its address. A process may be gone when somebody asks,
/// so its name is that of the moment at which it came.
fn name_of(who: &Who) -> String {
    let key = match who {
        Who::Client { key, .. } => key,
        Who::Volume(name) => return format!("volume {name}"),
    };
    match key {
        ClientKey::Address(address) => address.to_string(),
        ClientKey::Process(id) => match fs::read_to_string(format!("/proc/{id}/comm")) {
            Ok(name) => format!("{} ({id})", printable(&name)),
            Err(_) => format!("process {id}"),
        },
    }
}

/// A process chooses its name itself.
fn printable(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_graphic() || c == ' ';
    let name = name.trim_end().chars();
    name.map(|c| if is_plain(c) { c } else { '?' }).collect()
}

fn flow(index: usize) -> FlowId {
    FlowId(u32::try_from(index).expect("there are few accounts"))
}

#[cfg(test)]
mod tests {
    use heliostat_engine::FLOWS_MAX;

    use super::{Flows, SHARED};
    use crate::export::ClientKey;

    #[test]
    fn connections_of_one_client_share_an_account_and_others_get_it_after_the_last() {
        let mut flows = Flows::new();
        let first = flows.join(0, &ClientKey::Process(7));
        assert_ne!(first, SHARED);
        assert_eq!(flows.join(0, &ClientKey::Process(7)), first);
        assert_ne!(flows.join(1, &ClientKey::Process(7)), first);
        assert_eq!(flows.describe(first).1, 2);
        flows.leave(first);
        assert_eq!(flows.take_gone(), []);
        assert_ne!(flows.join(0, &ClientKey::Process(8)), first);
        flows.leave(first);
        let gone = flows.take_gone();
        assert!(gone.len() == 1 && gone[0].1.contains('7'), "{gone:?}");
        assert_eq!(flows.join(0, &ClientKey::Process(9)), first);
    }

    #[test]
    fn a_volume_has_an_account_whoever_connects() {
        let mut flows = Flows::new();
        let volume = flows.join_volume("a");
        assert_ne!(flows.join(0, &ClientKey::Process(7)), volume);
        assert_ne!(flows.join_volume("b"), volume);
        flows.leave(volume);
        assert_eq!(flows.join_volume("c"), volume);
    }

    #[test]
    fn a_client_is_called_as_its_process() {
        let mut flows = Flows::new();
        let me = std::process::id();
        let mine = flows.join(0, &ClientKey::Process(me));
        let (name, _) = flows.describe(mine);
        assert!(name.ends_with(&format!(" ({me})")), "{name}");
        let far = ClientKey::Address(std::net::Ipv4Addr::LOCALHOST.into());
        let far = flows.join(0, &far);
        assert_eq!(flows.describe(far).0, "127.0.0.1");
        assert_eq!(super::printable("a\u{1b}[2J\tb\n"), "a?[2J?b");
    }

    #[test]
    fn who_finds_no_account_left_shares_the_first() {
        let mut flows = Flows::new();
        for process in 1..FLOWS_MAX {
            let key = ClientKey::Process(u32::try_from(process).expect("few"));
            assert_ne!(flows.join(0, &key), SHARED);
        }
        assert_eq!(flows.join(0, &ClientKey::Process(0)), SHARED);
        flows.leave(SHARED);
        assert_eq!(flows.take_gone(), []);
    }
}
