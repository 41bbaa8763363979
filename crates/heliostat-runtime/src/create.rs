//! `create`: makes an array on legs, as `mdadm --create` would.
//!
//! Nothing is written before all that can be refused has been. Superblocks are written last, when
//! what they point to is durable: a leg with a superblock is a whole one.

use std::time::{SystemTime, UNIX_EPOCH};

use heliostat_engine::{Layout, Raid10, layout_word, shape_of};
use heliostat_format::{
    BadBlocks, DeviceFlags, Minor, NewArray, NewBitmap, NewLeg, Plan, SUPERBLOCK_BYTES_MAX, Stamp,
    Superblock, Uuid,
};
use heliostat_leg::{LegSpec, OpenedLeg};
use heliostat_types::{LEGS_MAX, LegId, LegSet, SECTOR_BYTES};
use stdx::units::format_size;

use crate::add::new_uuid;
use crate::array_lock::ArrayLock;
use crate::places::{Places, check_name};
use crate::registry::Registered;
use crate::setup::Progress;
use crate::{RuntimeError, UsageError, found, md};

/// The longest name that a superblock has room for.
const SET_NAME_BYTES_MAX: usize = 32;

/// A leg of an array that is to be made.
#[derive(Clone, Debug)]
pub struct CreateLeg {
    /// What it is; `None` where there is none yet.
    pub spec: Option<LegSpec>,
    /// Read only where nothing else is left.
    pub write_mostly: bool,
    /// Out at its first error.
    pub failfast: bool,
}

impl CreateLeg {
    fn flags(&self) -> DeviceFlags {
        let mut flags = DeviceFlags::default();
        if self.write_mostly {
            flags = flags.with(DeviceFlags::WRITE_MOSTLY);
        }
        if self.failfast {
            flags = flags.with(DeviceFlags::FAIL_FAST);
        }
        flags
    }
}

/// An array that is to be made.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// What it is called.
    pub name: String,
    /// Where the machine's own name belongs in front of that; `None`: nowhere.
    pub host: Option<String>,
    /// How its bytes lie on its legs.
    pub layout: Layout,
    /// Its legs, in the order that was asked for.
    pub legs: Vec<CreateLeg>,
    /// Legs that take the place of one that is out.
    pub spares: Vec<LegSpec>,
    /// Its bitmap.
    pub bitmap: Option<NewBitmap>,
    /// Whether the legs are known to be equal.
    pub assume_clean: bool,
    /// Whether what lies on the legs may be destroyed.
    pub force: bool,
    /// Where it is remembered.
    pub places: Places,
}

/// An array that was made.
#[derive(Clone, Debug)]
pub struct Created {
    /// Its identity.
    pub uuid: Uuid,
    /// How much there is for clients.
    pub size_bytes: u64,
    /// Where its data begins on the legs.
    pub data_offset_bytes: u64,
    /// How much of each leg is used.
    pub leg_bytes: u64,
    /// What one bit of the bitmap stands for.
    pub bitmap_chunk_bytes: Option<u64>,
}

/// A leg that is open and has its role.
struct Member {
    role: u16,
    leg: OpenedLeg,
    flags: DeviceFlags,
}

/// Makes an array.
///
/// # Errors
/// Where that cannot be; nothing was written then, but where the text says so.
pub fn create(
    options: &CreateOptions,
    progress: &mut dyn Progress,
) -> Result<Created, RuntimeError> {
    options.check()?;
    options.places.create()?;
    let name = &options.name;
    let _lock = ArrayLock::take(options.places.lock(name), name, "; choose another name")?;
    let members = open(options, progress)?;
    refuse_what_is_there(options, &members)?;
    warn_of_shared_disks(&members, progress);
    let array = new_array(options, &members)?;
    let sizes: Vec<u64> = members
        .iter()
        .map(|member| member.leg.info().size_bytes)
        .collect();
    let refused = |refusal: &dyn std::fmt::Display| RuntimeError(refusal.to_string());
    let plan = array.plan(&sizes).map_err(|refusal| {
        let is_meant = |member: &&Member| {
            refusal.field == NewArray::SIZE_OF_A_LEG
                && refusal.value == format_size(member.leg.info().size_bytes)
        };
        match members.iter().find(is_meant) {
            Some(member) => refused(&refusal.of(member.leg.name())),
            None => refused(&refusal),
        }
    })?;
    let superblocks = superblocks(&plan, &members)?;
    let (map, _) = shape_of(&superblocks[0]).map_err(|error| refused(&error))?;
    let present: LegSet = members
        .iter()
        .filter(|member| usize::from(member.role) < options.legs.len())
        .map(|member| LegId::new(usize::from(member.role)))
        .collect();
    if !map.is_covered_by(present) {
        return Err(RuntimeError(
            "too many legs are missing: some data would have no place at all".to_owned(),
        ));
    }
    for member in &members {
        tell_unused(&plan, member, progress);
    }
    write(&plan, &members, &superblocks)?;
    let texts = options.legs.iter().filter_map(|leg| leg.spec.as_ref());
    let texts = texts.chain(&options.spares);
    let known = Registered::new(array.set_uuid, texts.map(LegSpec::to_string));
    if let Ok(old) = Registered::load(&options.places, name) {
        progress.note(&format!(
            "another array was called {name} here ({}); its legs, where they are left, have to be \
             named from now on: {}",
            old.uuid,
            old.legs.join(" ")
        ));
    }
    known.store(&options.places, name)?;
    Ok(Created {
        uuid: array.set_uuid,
        size_bytes: map.size_bytes(),
        data_offset_bytes: plan.data_offset_sectors * SECTOR_BYTES,
        leg_bytes: plan.size_sectors * SECTOR_BYTES,
        bitmap_chunk_bytes: plan.bitmap_chunk_bytes.map(u64::from),
    })
}

impl CreateOptions {
    /// Whether this makes sense, as far as it can be said without looking at a leg.
    ///
    /// # Errors
    /// Where it does not.
    pub fn check(&self) -> Result<(), UsageError> {
        check(self)
    }
}

fn check(options: &CreateOptions) -> Result<(), UsageError> {
    check_name(&options.name)?;
    if options.name.len() > SET_NAME_BYTES_MAX {
        return Err(UsageError(format!(
            "'{}' is longer than the {SET_NAME_BYTES_MAX} bytes that a superblock has for a name",
            options.name
        )));
    }
    let count = options.legs.len();
    let least = match options.layout {
        Layout::Mirror => 2,
        Layout::Raid10(raid10) => raid10.copies as usize,
    };
    if !(least..=LEGS_MAX).contains(&count) {
        return Err(UsageError(format!(
            "such an array has {least} to {LEGS_MAX} legs, not {count}; 'missing' \
             stands for one that is to be added later"
        )));
    }
    if options.legs.iter().all(|leg| leg.spec.is_none()) {
        return Err(UsageError("not all legs can be missing".to_owned()));
    }
    check_write_behind(options)
}

/// Whether there are legs that may be behind, and others that they may be behind of.
fn check_write_behind(options: &CreateOptions) -> Result<(), UsageError> {
    let most = options.bitmap.map_or(0, |bitmap| bitmap.write_behind_max);
    let slow = options.legs.iter().filter(|leg| leg.write_mostly).count();
    let text = if most == 0 {
        return Ok(());
    } else if options.layout != Layout::Mirror {
        "write-behind is for raid1: only legs that hold all of the array can be behind"
    } else if slow == 0 {
        "write-behind needs a leg that may be behind: name it with --write-mostly LEG"
    } else if slow == options.legs.len() {
        "all legs are write-mostly: write-behind needs one that has what is answered"
    } else {
        return Ok(());
    };
    Err(UsageError(text.to_owned()))
}

/// Opens the legs and gives them their roles: those that are read last come last.
fn open(options: &CreateOptions, progress: &mut dyn Progress) -> Result<Vec<Member>, RuntimeError> {
    let (mut ordered, last): (Vec<&CreateLeg>, Vec<&CreateLeg>) =
        options.legs.iter().partition(|leg| !leg.write_mostly);
    let moves = options.legs.iter().zip(ordered.iter().chain(&last));
    let moves = moves
        .filter(|(one, other)| !std::ptr::eq(*one, **other))
        .count();
    if moves > 0 && options.layout == Layout::Mirror {
        progress.note(
            "write-mostly legs get the last roles: after a crash the first leg is the one that is \
             read",
        );
    }
    ordered.extend(last);
    let ordered = if options.layout == Layout::Mirror {
        ordered
    } else {
        options.legs.iter().collect()
    };
    let mut members = Vec::new();
    let legs = ordered
        .into_iter()
        .map(|leg| (leg.spec.as_ref(), leg.flags()));
    let plain = DeviceFlags::default();
    let spares = options.spares.iter().map(|spec| (Some(spec), plain));
    // Those behind the last role have none.
    for (role, (spec, flags)) in (0..).zip(legs.chain(spares)) {
        let Some(spec) = spec else {
            continue;
        };
        let opened = spec
            .open()
            .map_err(|error| RuntimeError(error.to_string()))?;
        if opened.info().volatile {
            return Err(RuntimeError(format!(
                "{spec} begins empty at each start, and cannot keep an array; give it a file \
                 (model:NAME,file=PATH), or serve it without metadata"
            )));
        }
        members.push(Member {
            role,
            leg: opened,
            flags,
        });
    }
    Ok(members)
}

/// Refuses legs that are not empty.
fn refuse_what_is_there(options: &CreateOptions, members: &[Member]) -> Result<(), RuntimeError> {
    if options.force {
        return Ok(());
    }
    let mut lines = Vec::new();
    for member in members {
        if let Some(what) = found::on_leg(&member.leg)? {
            lines.push(format!("\n  {} holds {what}", member.leg.name()));
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    Err(RuntimeError(format!(
        "not all legs are empty:{}\nAll of it would be lost. If that is what you want, say \
         --force.",
        lines.concat()
    )))
}

/// A mirror on one disk is none.
fn warn_of_shared_disks(members: &[Member], progress: &mut dyn Progress) {
    let disks = members
        .iter()
        .map(|member| found::disks_of(member.leg.name()));
    let disks: Vec<Vec<String>> = disks.collect();
    for (at, one) in members.iter().enumerate() {
        let shared = |other: usize| disks[at].iter().find(|disk| disks[other].contains(disk));
        let twin = (0..at).find_map(|other| Some((other, shared(other)?)));
        if let Some((twin, disk)) = twin {
            progress.note(&format!(
                "warning: {} and {} lie on one disk ({disk}): when it fails, both are gone",
                members[twin].leg.name(),
                one.leg.name()
            ));
        }
    }
}

/// The roles that nobody has yet.
fn missing(options: &CreateOptions, members: &[Member]) -> Vec<u16> {
    let roles = 0..u16::try_from(options.legs.len()).expect("at most 16");
    let is_there = |role: &u16| members.iter().any(|member| member.role == *role);
    roles.filter(|role| !is_there(role)).collect()
}

fn new_array(options: &CreateOptions, members: &[Member]) -> Result<NewArray, RuntimeError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or_default();
    let chunk_sectors = match options.layout {
        Layout::Mirror => 0,
        Layout::Raid10(Raid10 { chunk_bytes, .. }) => chunk_bytes / SECTOR_BYTES,
    };
    Ok(NewArray {
        minor: Minor::Behind4K,
        set_uuid: new_uuid()?,
        name: set_name(options),
        ctime: Stamp::new(since.as_secs(), since.subsec_micros()),
        level: match options.layout {
            Layout::Mirror => 1,
            Layout::Raid10(_) => 10,
        },
        layout: layout_word(options.layout),
        chunk_sectors: u32::try_from(chunk_sectors).expect("a chunk is at most 1 GiB"),
        raid_disks: u32::try_from(options.legs.len()).expect("at most 16"),
        missing: missing(options, members),
        bitmap: options.bitmap,
        is_clean: options.assume_clean,
    })
}

/// The name in the superblock: with the machine's in front where there is room, as mdadm has it.
fn set_name(options: &CreateOptions) -> String {
    match &options.host {
        Some(host) if host.len() + 1 + options.name.len() <= SET_NAME_BYTES_MAX => {
            format!("{host}:{}", options.name)
        }
        _ => options.name.clone(),
    }
}

fn superblocks(plan: &Plan, members: &[Member]) -> Result<Vec<Superblock>, RuntimeError> {
    let mut superblocks = Vec::new();
    for member in members {
        let leg = NewLeg {
            device_bytes: member.leg.info().size_bytes,
            device_uuid: new_uuid()?,
            flags: member.flags,
            number: member.role,
        };
        let superblock = plan.superblock(&leg);
        superblocks.push(
            superblock
                .map_err(|refusal| RuntimeError(refusal.of(member.leg.name()).to_string()))?,
        );
    }
    Ok(superblocks)
}

fn tell_unused(plan: &Plan, member: &Member, progress: &mut dyn Progress) {
    let used = (plan.data_offset_sectors + plan.size_sectors) * SECTOR_BYTES;
    let unused = member.leg.info().size_bytes.saturating_sub(used);
    // What rounding leaves is not worth a word.
    if unused > used / 100 {
        progress.note(&format!(
            "{} has {} more than is used: an array takes as much of each leg as the smallest has",
            member.leg.name(),
            format_size(unused)
        ));
    }
}

/// Writes what the superblocks point to, and then the superblocks.
fn write(plan: &Plan, members: &[Member], superblocks: &[Superblock]) -> Result<(), RuntimeError> {
    let failed = |error: &dyn std::fmt::Display| {
        RuntimeError(format!(
            "{error}; the array was not made, and what was on its legs may be damaged"
        ))
    };
    for (member, superblock) in members.iter().zip(superblocks) {
        let leg = &member.leg;
        let write = |sector: u64, bytes: &[u8]| {
            let written = leg.write_at(sector * SECTOR_BYTES, bytes);
            written.map_err(|error| failed(&error))
        };
        // One that lay in another place would be found beside ours.
        for place in Superblock::places(leg.info().size_bytes) {
            let mut bytes = [0; SUPERBLOCK_BYTES_MAX];
            let read = leg.read_at(place.offset_bytes(), &mut bytes);
            read.map_err(|error| failed(&error))?;
            if Superblock::parse_damaged(&bytes).is_ok() {
                write(place.sector, &[0; SUPERBLOCK_BYTES_MAX])?;
            }
        }
        if let (Some(bitmap), Some(sector)) = (plan.bitmap(), superblock.bitmap_sector()) {
            write(sector, bitmap.bytes())?;
        }
        if let Some(sector) = superblock.bad_blocks_sector() {
            let empty = BadBlocks::new(superblock.bad_blocks_size_sectors);
            write(sector, &empty.to_bytes())?;
        }
        leg.sync().map_err(|error| failed(&error))?;
    }
    for (member, superblock) in members.iter().zip(superblocks) {
        let written = md::write_superblock(&member.leg, superblock);
        written.map_err(|error| failed(&error))?;
    }
    Ok(())
}
