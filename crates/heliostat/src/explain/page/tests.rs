//! What an engineer gets to see.

use expect_test::expect;
use heliostat_runtime::{
    CurveFigures, CurvePointFigures, Explanation, HedgeFigures, LegExplained, ReadAheadFigures,
    StreamExplained, WatchEnd, WatchedReads,
};
use serde_json::json;

use super::{beliefs, reads};
use crate::explain::testing::{candidate, decision};

const WIDE: usize = 100;

fn leg(index: usize, name: &str) -> LegExplained {
    LegExplained {
        index,
        leg: name.to_owned(),
        state: "in-sync".to_owned(),
        reads_in_flight: 2,
        writes_in_flight: 0,
        reads: 20,
        mean_read_ns: Some(1_250_000),
        facts: [].into(),
        curves: Vec::new(),
    }
}

fn curve(bytes_max: Option<u64>, streams: bool, ns: u64) -> CurveFigures {
    let point = |at: u32| CurvePointFigures {
        load: 1 << at,
        ns: ns << at,
        seen: at < 2,
    };
    CurveFigures {
        bytes_max,
        streams,
        parts: false,
        weight_reads: 812,
        points: (0..12).map(point).collect(),
    }
}

/// A drive that is well, a disk that is slow, and one that is out.
fn explanation() -> Explanation {
    let mut drive = leg(0, "/dev/disk/by-id/nvme-Samsung_SSD_990_PRO_1TB");
    drive.facts = [
        ("class".to_owned(), json!("flash")),
        ("stalls_ns".to_owned(), json!(1_200)),
        ("writes_share".to_owned(), json!(0.25)),
    ]
    .into();
    drive.curves = vec![
        curve(Some(16 << 10), false, 92_000),
        curve(None, true, 1_000_000),
    ];
    let mut disk = leg(1, "model:hdd-7200-2tb,size=64MiB");
    disk.facts = [
        ("class".to_owned(), json!("rotational")),
        ("slow_times".to_owned(), json!(3.4)),
        ("writes_share".to_owned(), json!(0.0)),
    ]
    .into();
    let mut gone = leg(2, "/dev/sdc");
    gone.state = "faulted".to_owned();
    gone.facts = [("class".to_owned(), json!("flash"))].into();
    Explanation {
        name: "home".to_owned(),
        policy: "adaptive".to_owned(),
        rule: "the leg that is predicted to end the read first".to_owned(),
        predicts: true,
        legs: vec![drive, disk, gone],
        streams: Vec::new(),
    }
}

#[test]
fn beliefs_of_a_policy_that_predicts() {
    expect![[r#"
        home: policy adaptive
        the leg that is predicted to end the read first

         leg                   state  in flight       class  slow   stalls  writes
         0 ..SD_990_PRO_1TB  in-sync      2r 0w       flash     -  1.20 us    25 %
         1 hdd-7200-2tb      in-sync      2r 0w  rotational  3.4x        -     0 %
         2 sdc               faulted      2r 0w       flash     -        -       -

        How long a read is believed to take, by the load that it meets (~: not seen there):

         leg                 reads            of   load 1        2         4
         0 ..SD_990_PRO_1TB  to 16 KiB       812  92.0 us   184 us   ~368 us
                             streams longer  812  1.00 ms  2.00 ms  ~4.00 ms
         1 hdd-7200-2tb      never read
    "#]]
    .assert_eq(&beliefs(&explanation(), WIDE));
}

#[test]
fn streams_are_shown_with_what_is_read_ahead_of_them() {
    let mut told = explanation();
    let facts = &mut told.legs[0].facts;
    facts.insert(
        "in_sequence_bytes_per_s".to_owned(),
        json!(3_489_660_928_u64),
    );
    let stream = |offset, legs: &[usize], read_ahead: &str| StreamExplained {
        offset,
        read_bytes: 12 << 30,
        ahead_bytes: 48 << 20,
        legs: legs.to_vec(),
        read_ahead: read_ahead.to_owned(),
    };
    told.streams = vec![
        stream(1 << 20, &[], "each leg reads a stretch"),
        stream(7 << 30, &[0, 1], "nothing: a disk is busy with writes"),
    ];
    let text = beliefs(&told, WIDE);
    assert!(text.contains("in sequence"), "{text}");
    assert!(text.contains("3.25 GiB/s"), "{text}");
    let streams = &text[text.find("Streams").unwrap()..];
    expect![[r#"
        Streams that are read now, and what is read ahead of them:

         stream at  read ahead                           kept to  read so far   ahead
         1 MiB      each leg reads a stretch                   -       12 GiB  48 MiB
         7 GiB      nothing: a disk is busy with writes     0, 1       12 GiB  48 MiB
    "#]]
    .assert_eq(streams);
}

#[test]
fn a_policy_that_predicts_nothing_says_so() {
    let mut told = explanation();
    told.predicts = false;
    told.legs.iter_mut().for_each(|leg| leg.curves.clear());
    let text = beliefs(&told, WIDE);
    assert!(text.ends_with("behind 'mean'.\n"), "{text}");
    told.legs.iter_mut().for_each(|leg| leg.facts.clear());
    expect![[r#"
        home: policy adaptive
        the leg that is predicted to end the read first

         leg                   state  in flight  reads     mean
         0 ..SD_990_PRO_1TB  in-sync      2r 0w     20  1.25 ms
         1 hdd-7200-2tb      in-sync      2r 0w     20  1.25 ms
         2 sdc               faulted      2r 0w     20  1.25 ms

        It learns nothing of legs and predicts nothing: it goes by its rule alone.
    "#]]
    .assert_eq(&beliefs(&told, WIDE));
}

#[test]
fn nothing_is_known_before_the_first_read() {
    let mut told = explanation();
    told.legs.iter_mut().for_each(|leg| leg.curves.clear());
    let text = beliefs(&told, WIDE);
    assert!(
        text.ends_with("nothing is known of how long reads take.\n"),
        "{text}"
    );
}

#[test]
fn why_reads_go_where_they_go() {
    let mut slow = candidate(1, Some(8_100_000));
    slow.slow = Some(true);
    slow.reads_in_flight = 2;
    slow.writes_in_flight = 1;
    slow.last_sent_end = Some(3 << 20);
    let mut near = candidate(0, Some(92_000));
    near.last_sent_end = Some(1 << 20);
    let usual = decision(Some("predicted least"), &[0], &[near, slow]);
    let trial = decision(Some("never read yet"), &[1], &[near, candidate(1, Some(0))]);
    let told = WatchedReads {
        watched_ns: 2_300_000_000,
        end: WatchEnd::Full,
        decisions: vec![usual.clone(), usual.clone(), trial, usual],
        read_ahead: vec![ReadAheadFigures {
            leg: 0,
            reads: 3,
            bytes: 3 << 20,
        }],
        hedges: vec![HedgeFigures {
            late: 1,
            asked: 0,
            reads: 2,
        }],
    };
    expect![[r#"
        4 reads in 2.30 s:

         reads          to                  because          predicted  instead of
             3  75.0 %  0 ..SD_990_PRO_1TB  predicted least    92.0 us  1: 8.10 ms (slow)
             1  25.0 %  1 hdd-7200-2tb      never read yet     unknown  0: 92.0 us

        The last of them:

          +1.50 ms: 4 KiB at 1 MiB to 0 ..SD_990_PRO_1TB: predicted least
              0 ..SD_990_PRO_1TB: predicted 92.0 us, idle, goes on there
              1 hdd-7200-2tb: predicted 8.10 ms, 2 reads and 1 write in flight, 2 MiB away, slow now
          +1.50 ms: 4 KiB at 1 MiB to 1 hdd-7200-2tb: never read yet
              0 ..SD_990_PRO_1TB: predicted 92.0 us, idle, goes on there
              1 hdd-7200-2tb: never read yet, idle
          +1.50 ms: 4 KiB at 1 MiB to 0 ..SD_990_PRO_1TB: predicted least
              0 ..SD_990_PRO_1TB: predicted 92.0 us, idle, goes on there
              1 hdd-7200-2tb: predicted 8.10 ms, 2 reads and 1 write in flight, 2 MiB away, slow now

        0 ..SD_990_PRO_1TB was asked 3 times to read ahead, 3 MiB in all.
        1 hdd-7200-2tb was late with 2 reads that 0 ..SD_990_PRO_1TB was asked for as well.
    "#]]
    .assert_eq(&reads(&explanation(), &told, WIDE));
}

#[test]
fn no_read_is_said_too() {
    let told = WatchedReads {
        watched_ns: 5_000_000_000,
        end: WatchEnd::PolicyReplaced,
        ..WatchedReads::default()
    };
    expect![[r#"
        No read asked the policy within 5.00 s.

        Another policy was set meanwhile; ask again for what that one does.
    "#]]
    .assert_eq(&reads(&explanation(), &told, WIDE));
}

#[test]
fn rare_groups_are_only_counted() {
    let reasons = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n",
    ];
    let one = |reason| {
        decision(
            Some(reason),
            &[0],
            &[candidate(0, None), candidate(1, None)],
        )
    };
    let told = WatchedReads {
        decisions: reasons.map(one).to_vec(),
        ..WatchedReads::default()
    };
    let text = reads(&explanation(), &told, WIDE);
    assert!(text.contains("and 2 for other reasons"), "{text}");
}

#[test]
fn what_is_too_wide_goes_on_below() {
    let mut busy = candidate(1, Some(8_100_000));
    busy.reads_in_flight = 52;
    busy.writes_in_flight = 5;
    busy.last_sent_end = Some(3 << 20);
    busy.delays_writes = Some(true);
    let other = candidate(2, Some(9_100_000));
    let one = decision(
        Some("home of the stream"),
        &[0],
        &[candidate(0, Some(92_000)), busy, other],
    );
    let told = WatchedReads {
        decisions: vec![one],
        hedges: vec![HedgeFigures {
            late: 1,
            asked: 0,
            reads: 2,
        }],
        ..WatchedReads::default()
    };
    for width in 80..=100 {
        let text = beliefs(&explanation(), width) + &reads(&explanation(), &told, width);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{widest:?} of {width}:\n{text}");
        // Whatever the width, all of it is there.
        for word in ["slow", "25 %", "368 us", "2: 9.10 ms", "writes wait for it"] {
            assert!(text.contains(word), "{word} of {width}:\n{text}");
        }
    }
}
