//! What is in a round, and in what order it is done.

use super::{Job, device, order, read, with, with_on, write};

#[test]
fn a_round_is_one_sweep_upwards() {
    let mut fair = with(&[write(1, 0, 50), write(2, 1, 70), write(3, 2, 20)]);
    assert_eq!(order(&mut fair, 2), [3, 1]);
    fair.0.insert(write(4, 3, 60), &mut fair.1);
    fair.0.insert(write(5, 4, 40), &mut fair.1);
    assert_eq!(
        order(&mut fair, 9),
        [4, 2, 5],
        "what the sweep has passed waits for the next"
    );
}

#[test]
fn on_flash_what_lies_before_the_sweep_joins_its_round_and_is_done_behind_it() {
    let jobs = [write(1, 0, 50), write(2, 1, 70), write(3, 2, 20)];
    let mut fair = with_on(device(false), &jobs);
    assert_eq!(order(&mut fair, 2), [3, 1]);
    fair.0.insert(write(4, 3, 30), &mut fair.1);
    fair.0.insert(write(5, 4, 60), &mut fair.1);
    assert_eq!(order(&mut fair, 9), [5, 2, 4]);
}

#[test]
fn what_one_asks_for_beyond_the_others_waits() {
    let mut jobs: Vec<Job> = (0..200)
        .map(|op| write(op, 0, u64::from(op) * 10))
        .collect();
    jobs.extend((0..4).map(|op| write(1000 + op, 1, 9000 + u64::from(op) * 10)));
    let order = order(&mut with(&jobs), 300);
    let last = order.iter().position(|op| *op == 1003).unwrap();
    assert_eq!(order.len(), 204);
    assert!(last < 60, "{last} went before it");
}

#[test]
fn reads_go_before_writes_of_others() {
    let mut fair = with(&[write(1, 0, 1), write(2, 0, 2), write(3, 0, 3)]);
    assert_eq!(order(&mut fair, 1), [1]);
    fair.0.insert(read(4, 1, 90), &mut fair.1);
    assert_eq!(order(&mut fair, 1), [4]);
}
