//! What happens to an array: stages, in each of which one side has it.

use super::dice::Dice;
use super::shape::{Maker, Shape};

/// The tags of what is written, in the order of the pattern's parts: the first fills the array.
pub(in crate::kernel) const TAGS: &[&str] = &["a5", "b5", "c5", "d5", "e5", "f5"];

/// Where the array is written to after it was filled: every array is larger than that.
const WRITTEN_KIB: usize = 6 << 10;

/// KiB of the array, and the index of the tag that is written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) from: usize,
    pub(super) count: usize,
    pub(super) tag: usize,
}

/// Something that is done to an array that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// All of it is written to.
    Fill,
    Write(Write),
    /// A leg is taken out.
    Fail(char),
    /// Legs that are out come back, each by the shortest way that is allowed.
    Restore(Vec<char>),
    /// Nothing is to be done in the background any more.
    Settle,
    /// Everything is read and compared: nothing may differ.
    Check,
    /// The same, with what is to be done about differences.
    Repair,
    /// Of the kernel: a word for `array_state`.
    State(&'static str),
    /// A while in which bits are cleared and the array becomes clean.
    Rest,
}

/// How a stage ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Stop,
    Crash,
    /// Of heliostat: killed while somebody writes.
    CrashIn(Write),
}

/// A time in which one side has the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) side: Maker,
    /// The legs that it is given, in this order.
    pub(super) given: Vec<char>,
    pub(super) deeds: Vec<Deed>,
    pub(super) end: End,
}

/// Draws the stages of a life.
pub(super) fn draw(dice: &mut Dice, shape: &Shape) -> Vec<Stage> {
    let mut drawn = Drawn {
        all: shape.leg_names().collect(),
        out: Vec::new(),
        out_max: (shape.copies - 1).min(2),
        tag: 0,
        resyncs_all: shape.is_mirror,
        may_differ: false,
    };
    let count = 2 + dice.below(4);
    let mut stages: Vec<Stage> = Vec::new();
    let mut guests = usize::from(shape.maker == Maker::Kernel);
    for number in 0..count {
        let mut side = match (stages.last().map(|stage| stage.side), dice.below(4)) {
            (None, _) => shape.maker,
            (Some(side), 0) => side,
            (Some(Maker::Kernel), _) => Maker::Heliostat,
            (Some(Maker::Heliostat), _) => Maker::Kernel,
        };
        // Each of the kernel's is a boot.
        if guests == 3 || drawn.is_beyond_the_kernel() {
            side = Maker::Heliostat;
        }
        if side == Maker::Kernel && number > 0 {
            guests += 1;
        }
        stages.push(drawn.stage(dice, side, number == 0));
    }
    stages
}

struct Drawn {
    all: Vec<char>,
    /// Legs that are out, or lack something.
    out: Vec<char>,
    /// How many may be out at once.
    out_max: usize,
    tag: usize,
    /// The kernel makes copies equal whatever else is missing.
    resyncs_all: bool,
    /// It has crashed: copies may differ.
    may_differ: bool,
}

impl Drawn {
    /// Whether the kernel would leave copies different, and say nothing of it: its resync of a
    /// RAID10 ends where it meets a block of which it has one copy.
    fn is_beyond_the_kernel(&self) -> bool {
        self.may_differ && !self.resyncs_all && !self.out.is_empty()
    }

    fn stage(&mut self, dice: &mut Dice, side: Maker, is_first: bool) -> Stage {
        let mut given = self.all.clone();
        dice.shuffle(&mut given);
        let is_whole = side == Maker::Kernel && self.may_differ && !self.resyncs_all;
        if !is_first && dice.once_in(4) && !is_whole {
            // One is not there, and misses what happens.
            let missing = *dice.pick(&given);
            if self.can_go(missing) {
                self.out.push(missing);
                given.retain(|leg| *leg != missing);
            }
        }
        let mut deeds = Vec::new();
        if is_first {
            deeds.extend([Deed::Settle, Deed::Fill]);
        } else if dice.once_in(2) {
            deeds.push(Deed::Settle);
        }
        for _ in 0..1 + dice.below(4) {
            let deed = self.deed(dice, side);
            deeds.push(deed);
        }
        let end = match dice.below(6) {
            0 | 1 => End::Crash,
            2 if side == Maker::Heliostat => {
                let write = self.write(dice);
                End::CrashIn(write)
            }
            _ => End::Stop,
        };
        self.may_differ |= end != End::Stop;
        Stage {
            side,
            given,
            deeds,
            end,
        }
    }

    fn can_go(&self, leg: char) -> bool {
        !self.out.contains(&leg) && self.out.len() < self.out_max
    }

    fn deed(&mut self, dice: &mut Dice, side: Maker) -> Deed {
        match dice.below(12) {
            0 | 1 => {
                let leg = *dice.pick(&self.all);
                if self.can_go(leg) {
                    self.out.push(leg);
                    return Deed::Fail(leg);
                }
                Deed::Write(self.write(dice))
            }
            2 | 3 if !self.out.is_empty() => Deed::Restore(std::mem::take(&mut self.out)),
            4 => Deed::Settle,
            5 => Deed::Check,
            6 => Deed::Repair,
            7 if side == Maker::Kernel => {
                Deed::State(dice.pick::<&'static str>(&["clean", "active"]))
            }
            8 if dice.once_in(3) => Deed::Rest,
            _ => Deed::Write(self.write(dice)),
        }
    }

    fn write(&mut self, dice: &mut Dice) -> Write {
        self.tag = self.tag % (TAGS.len() - 1) + 1;
        let count = *dice.pick(&[4, 4, 12, 64, 64, 256, 1024]);
        let from = dice.below((WRITTEN_KIB - count) / 4) * 4;
        Write {
            from,
            count,
            tag: self.tag,
        }
    }
}
