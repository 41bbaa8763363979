//! Decisions can be read, by people and by programs.

use expect_test::expect;
use heliostat_policy::{Belief, Decision, LegView, Piece, Pieces, ReadPlan, ReadRequest, Weight};
use heliostat_types::{ClientId, Duration, Extent, Instant, LegId, StreamId};

use super::DecisionFigures;

fn view(leg: usize) -> LegView {
    LegView {
        leg: LegId::new(leg),
        address: 4096,
        reads_in_flight: 2,
        writes_in_flight: 0,
        read_bytes_in_flight: 8192,
        write_bytes_in_flight: 0,
        last_sent_end: Some(12_288),
        rotational: true,
        read_preferred: false,
        queue_depth: 32,
        optimal_io_bytes: 0,
        reads_completed: 4,
        read_wait: Duration::from_ms(40),
        own_outstanding: None,
    }
}

/// The decision for a read of 4 KiB, as text and as JSON.
fn told(at_ns: u64, plan: &ReadPlan) -> (String, String) {
    let mut second = view(1);
    second.last_sent_end = None;
    second.rotational = false;
    second.read_preferred = true;
    second.reads_completed = 0;
    let legs = [view(0), second];
    let belief = Belief {
        cost: Duration::from_us(120),
        is_slow: true,
        turns: true,
        delays_writes: true,
    };
    let decision = Decision {
        at: Instant::from_ns(at_ns),
        request: &ReadRequest {
            client: ClientId(3),
            stream: StreamId(0),
            extent: Extent::new(4096, 4096),
            may_split: true,
        },
        legs: &legs,
        beliefs: &[None, Some(belief)],
        weights: &[Some(Weight::Points(-3)), None],
        plan,
        reason: Some("predicted least"),
    };
    let figures = DecisionFigures::new(17, Instant::from_ns(1_000_000_000), &decision);
    let json = serde_json::to_string(&figures).unwrap();
    assert_eq!(
        serde_json::from_str::<DecisionFigures>(&json).unwrap(),
        figures
    );
    (figures.to_string(), json)
}

#[test]
fn a_decision_for_people() {
    let (text, _) = told(13_345_678_901, &ReadPlan::Leg(LegId::new(1)));
    expect![[r#"
        12.345678901 r17 client 3 read 4096+4096: leg 1 (predicted least) of [
        0: 2 reads 0 writes 8 KiB, last end 12288, mean 10.0 ms, rotational, weight -3;
        1: 2 reads 0 writes 8 KiB, nothing sent yet, preferred,
        predicted 120 us, slow now, taken for rotational, writes wait for it]
    "#]]
    .assert_eq(&format!(
        "{}\n",
        text.replace(" of [", " of [\n")
            .replace("; ", ";\n")
            .replace(" predicted", "\npredicted")
    ));
}

#[test]
fn a_split_read_during_the_warm_up() {
    let mut pieces = Pieces::new();
    for leg in [0, 1] {
        pieces.push(Piece {
            leg: LegId::new(leg),
            len_bytes: 2048,
        });
    }
    let (text, _) = told(999_999_999, &ReadPlan::Split(pieces));
    expect![[r#"
        -0.000000001 r17 client 3 read 4096+4096: leg 0 for 2048, leg 1 for 2048 (predicted least)
    "#]]
    .assert_eq(&format!("{}\n", text.split(" of [").next().unwrap()));
}

#[test]
fn a_decision_for_programs() {
    let (_, json) = told(13_345_678_901, &ReadPlan::Leg(LegId::new(1)));
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["decision"], 17);
    assert_eq!(value["at_ns"], 12_345_678_901u64);
    assert_eq!(value["reason"], "predicted least");
    assert_eq!(value["pieces"][0]["leg"], 1);
    assert_eq!(value["pieces"][0]["bytes"], 4096);
    assert_eq!(value["legs"][0]["last_sent_end"], 12_288);
    assert!(value["legs"][1]["last_sent_end"].is_null());
    assert!(value["legs"][0]["predicted_ns"].is_null());
    assert_eq!(value["legs"][0]["weight"], -3);
    assert!(value["legs"][1]["weight"].is_null());
    assert_eq!(value["legs"][1]["predicted_ns"], 120_000);
    assert_eq!(value["legs"][1]["slow"], true);
}
