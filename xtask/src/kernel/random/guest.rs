//! A stage of the kernel: a script for the guest.

use super::shape::Shape;
use super::stages::{Deed, End, Stage, Write};

/// What the guest does in a stage, the first one of a life where it is told what to make.
pub(super) fn script(stage: &Stage, made: Option<&Shape>) -> String {
    let given: Vec<String> = stage.given.iter().map(|leg| format!("${leg}")).collect();
    let mut lines = match made {
        Some(shape) => vec![shape.mdadm()],
        None => vec![
            "examine before".to_owned(),
            format!("assemble {}", given.join(" ")),
            // What was read once is read again.
            "first=\"$(digest)\"".to_owned(),
            "settle".to_owned(),
            "[ \"$(digest)\" = \"$first\" ]".to_owned(),
        ],
    };
    lines.extend(stage.deeds.iter().map(deed));
    if stage.end == End::Stop {
        lines.extend(["settle".to_owned(), "stop".to_owned()]);
    }
    lines.join("\n")
}

fn deed(deed: &Deed) -> String {
    match deed {
        Deed::Fill => "fill".to_owned(),
        Deed::Write(Write { from, count, tag }) => format!("rewrite {from} {count} {tag}"),
        Deed::Fail(leg) => format!("settle\nmdadm $md --fail ${leg}"),
        Deed::Restore(legs) => {
            let legs: Vec<String> = legs.iter().map(|leg| format!("${leg}")).collect();
            format!("restore {}", legs.join(" "))
        }
        Deed::Settle => "settle".to_owned(),
        // A degraded array need not be willing.
        Deed::Check => "settle\n{ echo check > $sys/sync_action; } || true\nsettle\n\
                        [ \"$(cat $sys/mismatch_cnt)\" = 0 ]"
            .to_owned(),
        Deed::Repair => "settle\n{ echo repair > $sys/sync_action; } || true\nsettle".to_owned(),
        Deed::State(word) => format!("{{ echo {word} > $sys/array_state; }} || true"),
        Deed::Rest => "sleep 1".to_owned(),
    }
}
