//! Several lives of one array: the power fails, and an engine is made of what the legs say.

use heliostat_engine::{Input, LegState, Map};
use heliostat_policy::ReadPolicy;
use heliostat_types::{ErrorKind, Extent, LegId, LegSet, OpKind, Prng};

use crate::fill::index;
use crate::world::World;

impl World {
    /// The power fails: of what was not durable, some is kept.
    pub(crate) fn fail_power(&mut self) {
        for at in 0..self.pending.len() {
            self.stir(at);
        }
        for leg in &mut self.legs {
            leg.cut_power(&mut self.prng);
        }
        self.say(|| "the power fails".to_owned());
        self.judge_power_cut();
        let mut failures = self
            .good()
            .iter()
            .flat_map(|leg| &self.legs[leg.index()].failures);
        self.is_untold = failures.any(|failure| {
            failure.kind != OpKind::Read && failure.error != ErrorKind::NotSupported
        });
        for leg in &mut self.legs {
            leg.wake();
        }
        self.pending.clear();
        self.ops_used.clear();
        self.ended.clear();
        self.asked.clear();
        self.held.clear();
        self.behind.clear();
        self.stored.clear();
        self.lost_with_legs.clear();
        self.allocated.clear();
        self.refused = false;
        self.events.clear();
        self.mutated = false;
    }

    /// The array is taken up again, with what the legs say, and perhaps without some of them.
    pub(crate) fn take_up_again(&mut self, policy: Box<dyn ReadPolicy>) {
        if self.prng.below(6) == 0 {
            self.make_bitmaps_stale();
        }
        let mut present = self.some_present();
        let first = index(self.prng.below(self.legs.len() as u64));
        let found = self.find_array(present, first);
        if found.is_err_and(|what| self.is_split(&what)) {
            present = self.good();
        }
        self.take_up_with(present, first, policy);
    }

    /// The same with these legs.
    pub(crate) fn take_up_with(
        &mut self,
        present: LegSet,
        first: usize,
        policy: Box<dyn ReadPolicy>,
    ) {
        let takes_back = self.prng.below(3) > 0;
        let found = if takes_back {
            self.find_all(present, first)
        } else {
            self.find_array(present, first)
        };
        let mut found = match found {
            Ok(found) => found,
            Err(what) => self.fail(&what),
        };
        if self.setup.has_room() {
            self.count_roles(found.roles());
            found = self.put_in_order(&found, (present, first), takes_back);
        }
        self.say(|| format!("taken up with {present:?}: {}", found.story()));
        self.judge_found(&found);
        let trusted = found.trusted;
        let all = LegSet::first(self.legs.len());
        let (bytes, lost) = self.read_first(trusted);
        // A leg that is missing may be back after another power cut, until the others say that it
        // is out.
        let missing = self.ever_believed(trusted).difference(trusted);
        let (legs, missing) = (self.images(trusted, &bytes), self.images(missing, &bytes));
        let may_differ = |at| found.may_differ(at);
        let is_complete = self.good().difference(trusted).is_empty() && !self.is_untold;
        let (tick, images) = (self.tick, (&legs[..], &missing[..]));
        let begun = (self.checker).begin_again(tick, &bytes, images, is_complete, may_differ);
        if let Err(what) = begun {
            self.fail(&what);
        }
        for sector in lost {
            self.checker.part_doomed(self.tick, sector);
        }
        self.needs_resync = found.needs_resync();
        let rebuilding = found.rebuilding();
        let metadata = self.take_up(found);
        for leg in all {
            let slot = &mut self.legs[leg.index()];
            slot.faulted = false;
            slot.rebuilding = rebuilding.contains(leg);
            slot.missed = None;
            slot.config.state = if trusted.contains(leg) || slot.rebuilding {
                LegState::InSync
            } else {
                LegState::Missing
            };
        }
        self.begin_engine(metadata, policy);
        for spare in self.spares.clone() {
            self.input(Input::AddSpare(spare));
        }
    }

    /// There are so many roles: what was to be one more may not be on record.
    fn count_roles(&mut self, roles: usize) {
        if self.plain.legs() != roles {
            self.plain = Map::mirror(roles, self.setup.size_bytes);
            let mut map = self.plain.clone();
            for leg in LegSet::first(self.legs.len()) {
                let role = self.map.role_of(leg).filter(|role| *role < roles);
                match role {
                    Some(role) => map.give_role(leg, role),
                    None => map.take_role(leg),
                }
            }
            self.set_map(map);
        }
    }

    /// What is read first is what stays: the bytes of the first of these legs that holds them well,
    /// and the sectors that none does.
    fn read_first(&self, trusted: LegSet) -> (Vec<u8>, Vec<Extent>) {
        let mut bytes = vec![0; index(self.setup.size_bytes)];
        let mut lost = Vec::new();
        for part in self.map.parts(Extent::new(0, self.setup.size_bytes)) {
            let places = self.map.places(part.offset());
            let sources = places.iter().map(|place| place.leg);
            let mut sources: Vec<LegId> = sources.filter(|leg| trusted.contains(*leg)).collect();
            sources.sort_by_key(|leg| self.says_behind(*leg));
            let first = sources
                .first()
                .expect("every byte has a leg that is trusted");
            let range = index(part.offset())..index(part.end());
            bytes[range].copy_from_slice(self.legs[first.index()].durable_bytes(part));
            let has_log = sources.iter().any(|leg| !self.log_on(*leg).is_empty());
            if !has_log {
                continue;
            }
            lost.extend(self.held_by_none(&sources, part));
            for source in sources.into_iter().rev() {
                for part in self.held_well(source.index(), part) {
                    let range = index(part.offset())..index(part.end());
                    bytes[range].copy_from_slice(self.legs[source.index()].durable_bytes(part));
                }
            }
        }
        for sector in &lost {
            // Nobody can read it, so any of what it may be will do.
            let range = index(sector.offset())..index(sector.end());
            self.checker.some_bytes(*sector, &mut bytes[range]);
        }
        (bytes, lost)
    }

    /// What legs durably hold of the array; where one holds nothing, `bytes`.
    fn images(&self, legs: LegSet, bytes: &[u8]) -> Vec<Vec<u8>> {
        let image = |leg: LegId| {
            let mut image = bytes.to_vec();
            for part in self.held_well(leg.index(), Extent::new(0, bytes.len() as u64)) {
                let range = index(part.offset())..index(part.end());
                image[range].copy_from_slice(self.legs[leg.index()].durable_bytes(part));
            }
            image
        };
        legs.iter().map(image).collect()
    }

    /// Whether legs are known to be all there, and none has failed anything in this life.
    pub(crate) fn is_untroubled(&self) -> bool {
        let all = LegSet::first(self.legs.len());
        let calm = |leg: LegId| self.legs[leg.index()].failures.is_empty();
        self.good().count() == self.map.legs() && all.iter().all(calm)
    }
}
