//! A start of an array with metadata, from what lies on its legs and nothing else: as the daemon
//! does it.

use heliostat_engine::{Assembled, Engine, LegState, Metadata, Unequal};
use heliostat_format::assembly::{Assembly, Candidate};
use heliostat_format::{BadBlocks, BitmapBits, Features, Superblock};
use heliostat_policy::{ArrayInfo, PolicySpec};
use heliostat_types::{Duration, LegId, LegSet, SECTOR_BYTES};

use crate::faults::Effect;
use crate::kernel_model::Copy;
use crate::metadata::{MADE_AT_SECONDS, SUPERBLOCK_AT, SUPERBLOCK_BYTES};
use crate::simulation::{Simulation, engine_config};

/// An array as legs describe it, and which legs these are.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) assembled: Assembled,
    /// The leg that has each role, in sync or not, and the one that is to replace another one last.
    by_role: Vec<Option<LegId>>,
}

impl Described {
    pub(super) fn of(assembly: &Assembly, (legs, candidates): &Read) -> Result<Self, String> {
        let unix_time = Duration::from_secs(MADE_AT_SECONDS);
        let assembled = Assembled::of(assembly, candidates, unix_time);
        let assembled = assembled.map_err(|error| error.to_string())?;
        let by_role = assembled.candidates.iter();
        let by_role = by_role.map(|candidate| candidate.map(|candidate| legs[candidate]));
        Ok(Self {
            by_role: by_role.collect(),
            assembled,
        })
    }

    /// The leg that the engine will know by this number.
    pub(super) fn leg(&self, number: LegId) -> LegId {
        self.by_role[number.index()].expect("it is there")
    }

    /// The role of it.
    pub(super) fn role(&self, number: LegId) -> LegId {
        let replaced = self.assembled.metadata.replaced;
        replaced
            .filter(|_| number.index() == self.assembled.map.legs())
            .unwrap_or(number)
    }

    /// The legs that hold all their data.
    pub(super) fn in_sync(&self) -> LegSet {
        let in_sync = self.assembled.in_sync.iter();
        in_sync.map(|number| self.leg(number)).collect()
    }
}

/// Legs, and what was read of each.
pub(super) type Read = (Vec<LegId>, Vec<Candidate>);

impl Simulation {
    /// What heliostat makes of `legs` as they lie there.
    pub(crate) fn assemble(&self, legs: LegSet) -> Result<Described, String> {
        let read = self.read_legs(legs)?;
        let assembly = Assembly::of(&read.1).map_err(|error| error.to_string())?;
        Described::of(&assembly, &read)
    }

    /// What is read of `legs`, in an order that does not depend on their roles.
    pub(super) fn read_legs(&self, legs: LegSet) -> Result<Read, String> {
        let mut legs: Vec<LegId> = legs.iter().collect();
        legs.sort_by_key(|leg| self.device(*leg));
        let (mut read, mut candidates) = (Vec::new(), Vec::new());
        for leg in legs {
            // What has no superblock is no leg.
            if let Some(candidate) = self.candidate(leg)? {
                read.push(leg);
                candidates.push(candidate);
            }
        }
        self.spoil_candidates(&mut candidates);
        Ok((read, candidates))
    }

    /// The same, with legs that were away and get what they have missed, where somebody is there
    /// who has them back. The legs are put in the order of their roles, and spares are ready.
    fn assemble_all(&mut self, legs: LegSet) -> Result<Assembled, String> {
        let read = self.read_legs(legs)?;
        let (legs, candidates) = &read;
        let mut assembly = Assembly::of(candidates).map_err(|error| error.to_string())?;
        let mut faults = self.scenario.faults.iter();
        let has_back = faults.any(|fault| matches!(fault.effect, Some(Effect::Added { .. })))
            && !(self.scenario.seed + self.power.cut_count).is_multiple_of(3);
        let back = if has_back {
            assembly.take_back(candidates)
        } else {
            Vec::new()
        };
        let described = Described::of(&assembly, &read)?;
        let devices: Vec<usize> = legs.iter().map(|leg| self.device(*leg)).collect();
        self.put_in_order(&described.by_role);
        for (device, candidate) in devices.iter().zip(candidates) {
            self.note_flags(self.place(*device), candidate.superblock.device_flags);
        }
        let mut assembled = described.assembled;
        for spare in &assembly.spares {
            self.offer_spare(devices[*spare]);
        }
        for index in back {
            // As the daemon does it, before anything else is written.
            let leg = self.place(devices[index]);
            let incomplete = candidates[index].superblock.incomplete();
            self.put_superblock(leg, Some(&incomplete));
            assembled.metadata.superblocks[leg.index()] = Some(incomplete);
        }
        Ok(assembled)
    }

    /// What is to be read of a leg.
    pub(super) fn candidate(&self, leg: LegId) -> Result<Option<Candidate>, String> {
        let sim_leg = &self.legs[leg.index()];
        let store = &sim_leg.store;
        let Ok(superblock) = Superblock::parse(&store.raw_bytes(SUPERBLOCK_AT, SUPERBLOCK_BYTES))
        else {
            return Ok(None);
        };
        superblock
            .check(sim_leg.spec().size_bytes)
            .map_err(|refusal| format!("{leg}: {refusal}"))?;
        let raw = |sector: u64, sectors: u64| {
            let len = usize::try_from(sectors * SECTOR_BYTES).expect("metadata is small");
            store.raw_bytes(sector * SECTOR_BYTES, len)
        };
        let bitmap = superblock.bitmap_sector().and_then(|sector| {
            let bits = BitmapBits::load(&raw(sector, superblock.bitmap_room_sectors())).ok()?;
            bits.super_block().check(&superblock).ok()?;
            Some(bits)
        });
        let log_sectors = superblock.bad_blocks_size_sectors;
        let is_told = superblock.features.contains(Features::BAD_BLOCKS);
        let log = superblock.bad_blocks_sector().filter(|_| is_told);
        let bad_blocks = log.and_then(|sector| {
            BadBlocks::parse(
                &raw(sector, u64::from(log_sectors)),
                superblock.bad_blocks_shift,
            )
            .ok()
        });
        Ok(Some(Candidate {
            name: leg.to_string(),
            superblock,
            bitmap,
            bad_blocks: bad_blocks.unwrap_or_else(|| BadBlocks::new(log_sectors)),
        }))
    }

    /// The copies of a sector of the array that heliostat may read when it starts so.
    pub(crate) fn readers(&self, described: &Described, sector: u64) -> Vec<Copy> {
        let assembled = &described.assembled;
        let data_sector = self.scenario.array.data_offset_bytes() / SECTOR_BYTES;
        let places = assembled.map.places(sector * SECTOR_BYTES).into_iter();
        let places = places.filter(|place| assembled.in_sync.contains(place.leg));
        // Logs count from the start of the leg, as copies do.
        let logs = &assembled.metadata.bad_blocks;
        let copies = places.filter_map(|place| {
            let sector = data_sector + place.address / SECTOR_BYTES;
            let is_bad = logs[place.leg.index()].overlaps(&(sector..sector + 1));
            (!is_bad).then(|| Copy {
                disk: described.leg(place.leg).index(),
                sector,
            })
        });
        let count = if may_differ(&assembled.metadata, sector) {
            1
        } else {
            usize::MAX
        };
        copies.take(count).collect()
    }

    /// Starts the array on `legs`, in the place of an engine that ended without a word.
    pub(crate) fn start_on(&mut self, legs: LegSet) -> Result<(), String> {
        self.operator.forget_spares();
        let assembled = self.assemble_all(legs)?;
        // They have other places now.
        let legs = self.legs_present();
        let roles = assembled.map.legs();
        let mut config = engine_config(&self.scenario, assembled.map, &self.legs);
        let rebuilding = assembled.metadata.rebuilding.iter();
        let rebuilding: LegSet = rebuilding.map(|(leg, _)| *leg).collect();
        for (leg, config) in (0..).map(LegId::new).zip(&mut config.legs) {
            let state = if assembled.in_sync.contains(leg) {
                LegState::InSync
            } else if rebuilding.contains(leg) {
                LegState::Rebuilding
            } else if legs.contains(leg) && leg.index() < roles {
                LegState::Faulted
            } else {
                LegState::Missing
            };
            *config = self.leg_config(leg, state);
        }
        config.size_bytes = assembled.size_bytes;
        let record = assembled.metadata.record();
        let lives = self.lives.as_mut().expect("the array has metadata");
        lives.seen.gone_on += u64::from(assembled.metadata.replaced.is_some());
        // One leg that is left is not resynced: what was out is copied from it.
        let is_alone = assembled.in_sync.count() == 1 && assembled.metadata.rebuilding.is_empty();
        lives.is_synced = is_alone || matches!(assembled.metadata.unequal, Unequal::Nowhere);
        config.metadata = Some(assembled.metadata);
        // Any policy: the one that chose before follows.
        let spec = PolicySpec::parse("pid").expect("there is such a policy");
        let picker = spec.build(&ArrayInfo::new(roles));
        let engine = Engine::new(config, picker.expect("it fits every array"), record);
        let before = std::mem::replace(&mut self.engine, engine);
        self.engine.follow(before);
        self.tell_limits();
        Ok(())
    }
}

/// Whether legs in sync may differ in a sector of the array.
pub(crate) fn may_differ(metadata: &Metadata, sector: u64) -> bool {
    let address = sector * SECTOR_BYTES;
    match (metadata.unequal, &metadata.bitmap) {
        (Unequal::Nowhere, _) => false,
        (Unequal::Bits, Some(bitmap)) => {
            bitmap.get(address / u64::from(bitmap.super_block().chunk_bytes))
        }
        (Unequal::Bits, None) => true,
        (Unequal::From(first), _) => address >= first,
    }
}
