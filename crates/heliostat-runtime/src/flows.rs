//! On whose account requests are done: the numbers of clients that are there now.
//!
//! A client has a number as long as one of its connections is open; then the next one may get it.
//! There are few numbers, so that what is kept for each stays small whoever connects; clients that
//! find none left share the first one.

use heliostat_types::FlowId;

use crate::export::ClientKey;

/// How many accounts there are: more clients at once than an array serves well, and few enough to
/// keep counters, histograms and a queue for each.
pub(crate) const FLOWS_MAX: usize = 256;

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
}

/// Which accounts are taken.
#[derive(Debug)]
pub(crate) struct Flows {
    /// By number; the first one is nobody's.
    owners: Vec<Option<Owner>>,
}

impl Flows {
    pub(crate) fn new() -> Self {
        Self { owners: vec![None] }
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
        self.owners[index] = Some(Owner {
            who,
            connections: 1,
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
            *owner = None;
        }
    }
}

fn flow(index: usize) -> FlowId {
    FlowId(u32::try_from(index).expect("there are few accounts"))
}

#[cfg(test)]
mod tests {
    use super::{FLOWS_MAX, Flows, SHARED};
    use crate::export::ClientKey;

    #[test]
    fn connections_of_one_client_share_an_account_and_others_get_it_after_the_last() {
        let mut flows = Flows::new();
        let first = flows.join(0, &ClientKey::Process(7));
        assert_ne!(first, SHARED);
        assert_eq!(flows.join(0, &ClientKey::Process(7)), first);
        assert_ne!(flows.join(1, &ClientKey::Process(7)), first);
        flows.leave(first);
        assert_ne!(flows.join(0, &ClientKey::Process(8)), first);
        flows.leave(first);
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
    fn who_finds_no_account_left_shares_the_first() {
        let mut flows = Flows::new();
        for process in 1..FLOWS_MAX {
            let key = ClientKey::Process(u32::try_from(process).expect("few"));
            assert_ne!(flows.join(0, &key), SHARED);
        }
        assert_eq!(flows.join(0, &ClientKey::Process(0)), SHARED);
        flows.leave(SHARED);
    }
}
