//! A life as a case: its stages as steps, and what is known of the array between them.

use std::fmt::Write as _;
use std::fs;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};

use super::dice::Dice;
use super::shape::{Maker, Shape};
use super::stages::{self, Deed, End, Stage, TAGS, Write};
use super::{guest, host};
use crate::kernel::agreement::{
    agree, agree_on_assembled, agree_on_stopped, agree_with_examine, keep,
};
use crate::kernel::case::{Case, Place, UNSHARED};

/// How finely is known what there is.
const BLOCK_KIB: usize = 4;

/// What every block may have.
#[derive(Debug, Default)]
pub(super) struct Content {
    blocks: Vec<Vec<String>>,
}

impl Content {
    /// An array of so many KiB, of zeros.
    fn new(size_kib: usize) -> Self {
        Self {
            blocks: vec![vec!["00".to_owned()]; size_kib / BLOCK_KIB],
        }
    }

    /// How many KiB there are.
    pub(super) fn size_kib(&self) -> usize {
        self.blocks.len() * BLOCK_KIB
    }

    fn range(&mut self, from: usize, to: usize) -> &mut [Vec<String>] {
        let end = self.blocks.len();
        &mut self.blocks[from / BLOCK_KIB..(to / BLOCK_KIB).min(end)]
    }

    /// These KiB hold this tag and nothing else.
    fn set(&mut self, from: usize, to: usize, tag: &str) {
        self.range(from, to).fill(vec![tag.to_owned()]);
    }

    /// These KiB may hold these tags as well.
    fn allow(&mut self, from: usize, to: usize, tags: &str) {
        for block in self.range(from, to) {
            block.extend(tags.split(',').map(str::to_owned));
        }
    }

    /// Takes what was seen, where it is certain.
    fn learn(&mut self, seen: &str) -> Result<()> {
        for line in seen.lines() {
            let (from, to, tag) = parse_run(line)?;
            if tag != "?" {
                self.set(from, to, tag);
            }
        }
        Ok(())
    }

    /// As the judge wants to be told.
    fn lines(&self) -> String {
        let mut text = String::new();
        for (index, tags) in self.blocks.iter().enumerate() {
            let (from, to) = (index * BLOCK_KIB, (index + 1) * BLOCK_KIB);
            writeln!(text, "{from}..{to} {}", tags.join(",")).expect("a text takes everything");
        }
        text
    }

    /// What is true after a deed.
    fn after(&mut self, deed: &Deed) {
        match deed {
            Deed::Fill => self.set(0, self.size_kib(), TAGS[0]),
            Deed::Write(Write { from, count, tag }) => self.set(*from, from + count, TAGS[*tag]),
            Deed::Fail(_)
            | Deed::Restore(_)
            | Deed::Settle
            | Deed::Check
            | Deed::Repair
            | Deed::State(_)
            | Deed::Rest => {}
        }
    }

    /// Writes a file that says so.
    pub(super) fn store(&self, place: &Place) -> Result<()> {
        fs::write(place.drive("allowed"), self.lines()).context("writing what is allowed")
    }
}

/// A line of the judge: the KiB from and to which, and the tags.
fn parse_run(line: &str) -> Result<(usize, usize, &str)> {
    let (range, tags) = line.split_once(' ').with_context(|| line.to_owned())?;
    let (from, to) = range.split_once("..").with_context(|| line.to_owned())?;
    Ok((from.parse()?, to.parse()?, tags))
}

/// A case from a seed.
pub(super) fn case(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let shape = Shape::draw(&mut dice);
    let stages = stages::draw(&mut dice, &shape);
    let mut case = Case::new(format!("random-{seed}")).with_program();
    for size in &shape.leg_bytes {
        case = case.legs(1, *size);
    }
    let legs: Vec<String> = shape.leg_names().map(String::from).collect();
    let legs = legs.join(" ");
    let content = Arc::new(Mutex::new(Content::default()));
    for (number, stage) in stages.iter().enumerate() {
        let is_first = number == 0;
        let mut given: Vec<String> = stage.given.iter().map(|leg| String::from(*leg)).collect();
        // The guest tells of its legs in this order.
        given.sort_unstable();
        let given = given.join(" ");
        case = match stage.side {
            Maker::Kernel => {
                if !is_first {
                    let (legs, given) = (legs.clone(), given);
                    case = case.host(move |place| keep(place, &legs, &given));
                }
                case.guest(guest::script(stage, is_first.then_some(&shape)))
            }
            Maker::Heliostat => {
                let (stage, shape) = (stage.clone(), is_first.then(|| shape.clone()));
                let content = Arc::clone(&content);
                case.host(move |place| {
                    let content = content.lock().expect(UNSHARED);
                    host::live(place, &stage, shape.as_ref(), &content)
                        .with_context(|| format!("stage {number}, {stage:?}"))
                })
            }
        };
        let (stage, legs, content) = (stage.clone(), legs.clone(), Arc::clone(&content));
        let tear = dice.once_in(2).then(|| dice.below(1000));
        case = case.host(move |place| {
            let mut content = content.lock().expect(UNSHARED);
            after(place, &stage, is_first, &legs, tear, &mut content)
                .with_context(|| format!("after stage {number}, {stage:?}"))
        });
    }
    case
}

/// What has to be so after a stage.
fn after(
    place: &Place,
    stage: &Stage,
    is_first: bool,
    legs: &str,
    tear: Option<usize>,
    content: &mut Content,
) -> Result<()> {
    if stage.side == Maker::Kernel {
        if !is_first {
            agree(place, "before", legs)?;
            agree_on_assembled(place)?;
        }
        if stage.end == End::Stop {
            agree(place, "after", legs)?;
            agree_with_examine(place, "after", legs)?;
            agree_on_stopped(place, legs)?;
        }
    }
    let size: usize = place.judge(&format!("size {legs}"))?.trim().parse()?;
    if is_first {
        *content = Content::new(size);
    }
    ensure!(size == content.size_kib(), "the array has {size} KiB now");
    stage.deeds.iter().for_each(|deed| content.after(deed));
    if let End::CrashIn(Write { from, count, tag }) = stage.end {
        content.allow(from, from + count, TAGS[tag]);
    }
    content.store(place)?;
    let seen = place.judge(&format!("hold allowed {legs}"))?;
    content.learn(&seen)?;
    if let Some(seed) = tear.filter(|_| stage.end != End::Stop) {
        for line in place.judge(&format!("tear {seed} 4 {legs}"))?.lines() {
            let (from, to, tags) = parse_run(line)?;
            content.allow(from, to, tags);
        }
    }
    Ok(())
}
