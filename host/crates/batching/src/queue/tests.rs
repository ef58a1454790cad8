use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use model::{BatchingConfig, Priorities, QueuePolicy, TimeoutAction};

use super::*;

fn at(micros: u64) -> Moment {
    Moment::from_origin(Duration::from_micros(micros))
}

fn config(delay_us: u64, preferred: &[u32]) -> BatchingConfig {
    BatchingConfig {
        preferred_batch_sizes: preferred.to_vec(),
        max_queue_delay: Duration::from_micros(delay_us),
        queue: policy(16),
        ..BatchingConfig::default()
    }
}

fn policy(max_queue_size: usize) -> QueuePolicy {
    QueuePolicy { max_queue_size: NonZeroUsize::new(max_queue_size).expect("a bound"), ..QueuePolicy::default() }
}

fn queue(max_batch_size: u32, delay_us: u64, preferred: &[u32]) -> BatchQueue<u32> {
    BatchQueue::new(BatchRules::new(max_batch_size, &config(delay_us, preferred)))
}

/// A queue of three levels, whose timeouts delay; level 2 takes two requests.
fn levels(max_batch_size: u32, delay_us: u64, preferred: &[u32]) -> BatchQueue<u32> {
    let mut config = config(delay_us, preferred);
    config.queue.default_timeout = Some(Duration::from_micros(1));
    config.queue.timeout_action = TimeoutAction::Delay;
    let levels = NonZeroU32::new(3).expect("3");
    config.priorities = Some(Priorities { levels, default_level: 1, policies: [(2, policy(2))].into() });
    BatchQueue::new(BatchRules::new(max_batch_size, &config))
}

fn arrival(shape: u64, rows: u64, item: u32) -> Arrival<u32> {
    Arrival::new(ShapeKey::new(&[shape]), rows, item)
}

fn at_level(level: u32, arrival: Arrival<u32>) -> Arrival<u32> {
    Arrival { level, ..arrival }
}

/// A request in pieces of these rows; the items count up.
fn in_pieces(shape: u64, rows: &[u64], first: u32) -> Arrival<u32> {
    let mut pieces = rows.iter().zip(first..).map(|(&rows, item)| Piece { rows, item });
    let Piece { rows, item } = pieces.next().expect("a piece");
    Arrival { rest: pieces.collect(), ..arrival(shape, rows, item) }
}

fn items(batch: Batch<u32>) -> Vec<u32> {
    batch.requests.into_iter().map(|taken| taken.item).collect()
}

#[test]
fn the_lane_of_the_oldest_request_goes_first_and_shapes_never_mix() {
    let mut queue = queue(8, 0, &[]);
    for (shape, item) in [(1, 10), (2, 20), (1, 11), (3, 30), (2, 21)] {
        queue.push(at(0), arrival(shape, 1, item)).expect("room");
    }
    assert_eq!(queue.lanes(), 3);
    assert_eq!(items(queue.take(at(0))), [10, 11]);
    assert_eq!(items(queue.take(at(0))), [20, 21]);
    assert_eq!(items(queue.take(at(0))), [30]);
    assert_eq!((queue.decide(at(0)), queue.lanes(), queue.rows()), (Decision::Empty, 0, 0));
}

#[test]
fn a_delay_holds_a_batch_until_it_is_over_or_the_batch_is_full() {
    let mut queue = queue(4, 100, &[]);
    queue.push(at(10), arrival(1, 1, 1)).expect("room");
    queue.push(at(60), arrival(1, 1, 2)).expect("room");
    assert_eq!(queue.decide(at(109)), Decision::WaitUntil(at(110)));
    assert!(queue.take(at(109)).requests.is_empty(), "not ready");
    assert_eq!(items(queue.take(at(110))), [1, 2]);

    queue.push(at(200), arrival(1, 3, 3)).expect("room");
    queue.push(at(201), arrival(2, 4, 4)).expect("room");
    assert_eq!(queue.decide(at(201)), Decision::Run, "the second lane is full");
    assert_eq!(items(queue.take(at(201))), [4]);
    assert_eq!(queue.decide(at(201)), Decision::WaitUntil(at(300)));
    queue.push(at(202), arrival(1, 2, 5)).expect("room");
    assert_eq!(items(queue.take(at(202))), [3], "the next one does not fit, so waiting is pointless");
    assert_eq!(queue.decide(at(202)), Decision::WaitUntil(at(302)));
}

#[test]
fn removing_a_request_can_make_the_rest_ready() {
    let mut queue = queue(8, 100, &[4]);
    let first = queue.push(at(0), arrival(1, 3, 1)).expect("room");
    queue.push(at(0), arrival(1, 4, 2)).expect("room");
    assert_eq!(queue.decide(at(0)), Decision::Run, "7 rows are past the largest preferred size");
    queue.push(at(0), arrival(2, 1, 3)).expect("room");
    assert_eq!(queue.remove(first), Some(1));
    assert_eq!(queue.remove(first), None);
    assert_eq!(items(queue.take(at(0))), [2]);
    assert_eq!(queue.decide(at(0)), Decision::WaitUntil(at(100)));
}

#[test]
fn a_model_that_does_not_batch_runs_requests_one_by_one_without_delay() {
    let mut queue = queue(0, 100, &[]);
    queue.push(at(0), arrival(1, 1, 1)).expect("room");
    queue.push(at(0), arrival(1, 1, 2)).expect("room");
    assert_eq!(queue.decide(at(0)), Decision::Run);
    assert_eq!(items(queue.take(at(0))), [1]);
    assert_eq!(items(queue.take(at(0))), [2]);
}

#[test]
fn the_bound_is_exact_and_refuses_with_the_request() {
    let mut queue = queue(1, 0, &[]);
    for item in 0..16 {
        queue.push(at(0), arrival(u64::from(item), 1, item)).expect("room for 16");
    }
    let QueueIsFull(refused) = queue.push(at(0), arrival(1, 1, 99)).expect_err("the 17th");
    assert_eq!((refused, queue.len(), queue.lanes()), (99, 16, 16));
    assert_eq!(items(queue.take(at(0))), [0]);
    queue.push(at(0), arrival(1, 1, 99)).expect("room again");
}

#[test]
fn expired_requests_are_handed_back_and_never_run() {
    let mut queue = queue(8, 0, &[]);
    for (item, deadline) in [(1, 50), (2, 20), (3, 90)] {
        let arrival = Arrival { deadline: Some(at(deadline)), ..arrival(1, 1, item) };
        queue.push(at(0), arrival).expect("room");
    }
    assert_eq!(queue.next_deadline(), Some(at(20)));
    assert!(queue.expire(at(19)).is_empty());
    let batch = queue.take(at(50));
    assert_eq!(batch.expired, [2, 1], "earliest first");
    assert_eq!(items(batch), [3]);
    assert_eq!(queue.next_deadline(), None);
}

#[test]
fn a_clock_read_too_early_does_not_turn_time_back() {
    let mut queue = queue(8, 100, &[]);
    queue.push(at(50), arrival(1, 1, 1)).expect("room");
    queue.push(at(40), arrival(1, 1, 2)).expect("room");
    let batch = queue.take(at(150));
    assert!(batch.requests.iter().all(|taken| taken.enqueued == at(50)));
    assert_eq!(items(batch), [1, 2]);
}

#[test]
fn nobody_waits_for_others_once_told_to_stop_waiting() {
    let mut queue = queue(8, 100, &[]);
    queue.push(at(0), arrival(1, 1, 1)).expect("room");
    assert_eq!(queue.decide(at(0)), Decision::WaitUntil(at(100)));
    queue.stop_waiting();
    assert_eq!(queue.decide(at(0)), Decision::Run);
    assert_eq!(items(queue.take(at(0))), [1]);
}

#[test]
fn a_more_urgent_level_goes_first_and_less_urgent_ones_of_its_shape_fill_its_batch() {
    let mut queue = levels(4, 0, &[]);
    for (level, shape, item) in [(3, 1, 30), (2, 1, 20), (3, 2, 31), (1, 1, 10), (2, 2, 21), (3, 1, 32), (1, 3, 11)] {
        queue.push(at(0), at_level(level, arrival(shape, 1, item))).expect("room");
    }
    assert_eq!(queue.len_by_level(), BTreeMap::from([(1, 2), (2, 2), (3, 3)]));
    assert_eq!(items(queue.take(at(0))), [10, 20, 30, 32], "level after level, each in its order");
    assert_eq!(items(queue.take(at(0))), [11], "of another shape, but more urgent than the rest");
    assert_eq!(items(queue.take(at(0))), [21, 31]);
    assert_eq!((queue.len_by_level(), queue.lanes()), (BTreeMap::new(), 0));
}

#[test]
fn a_request_that_does_not_fit_ends_the_batch_whatever_its_level() {
    let mut queue = levels(4, 0, &[]);
    for (level, rows, item) in [(1, 2, 10), (2, 3, 20), (3, 1, 30)] {
        queue.push(at(0), at_level(level, arrival(1, rows, item))).expect("room");
    }
    assert_eq!(items(queue.take(at(0))), [10], "nobody is passed over for a smaller one");
    assert_eq!(items(queue.take(at(0))), [20, 30]);
}

#[test]
fn each_level_has_its_own_exact_bound() {
    let mut queue = levels(4, 0, &[]);
    for (level, bound) in [(1, 16), (2, 2), (3, 16)] {
        for item in 0..bound {
            assert!(!queue.is_full(level));
            queue.push(at(0), at_level(level, arrival(1, 1, item))).expect("room");
        }
        assert!(queue.is_full(level));
        let QueueIsFull(refused) = queue.push(at(0), at_level(level, arrival(1, 1, 99))).expect_err("one too many");
        assert_eq!((refused, queue.rules().max_requests(level).get()), (99, bound as usize));
    }
    assert_eq!(queue.len(), 34);
}

#[test]
fn a_full_batch_of_a_less_urgent_level_does_not_overtake_a_more_urgent_request() {
    let mut queue = levels(4, 100, &[]);
    queue.push(at(0), at_level(1, arrival(1, 1, 10))).expect("room");
    assert_eq!(queue.decide(at(1)), Decision::WaitUntil(at(100)));
    queue.push(at(1), at_level(2, arrival(2, 4, 20))).expect("room");
    assert_eq!(queue.decide(at(1)), Decision::Run);
    assert_eq!(items(queue.take(at(1))), [10], "rather without company than second");
    assert_eq!(items(queue.take(at(1))), [20]);
}

#[test]
fn the_oldest_request_drives_the_delay_whatever_its_level() {
    let mut queue = levels(4, 100, &[]);
    queue.push(at(0), at_level(3, arrival(1, 1, 30))).expect("room");
    queue.push(at(60), at_level(1, arrival(2, 1, 10))).expect("room");
    assert_eq!(queue.decide(at(99)), Decision::WaitUntil(at(100)));
    assert_eq!(items(queue.take(at(100))), [10]);
    assert_eq!(items(queue.take(at(100))), [30]);
}

#[test]
fn a_postponed_request_goes_behind_its_level_and_before_the_next() {
    let mut queue = levels(1, 0, &[]);
    for (level, item, postpone) in [(1, 10, 5), (1, 11, 3), (1, 12, 90), (2, 20, 90), (1, 13, 4)] {
        let arrival = Arrival { postpone: Some(at(postpone)), ..at_level(level, arrival(1, 1, item)) };
        queue.push(at(0), arrival).expect("room");
    }
    assert_eq!(queue.next_deadline(), Some(at(3)));
    assert!(queue.expire(at(4)).is_empty());
    assert_eq!(queue.next_deadline(), Some(at(5)));
    assert_eq!(items(queue.take(at(4))), [10], "not postponed yet");
    queue.push(at(5), at_level(1, arrival(1, 1, 14))).expect("room");
    let order: Vec<u32> = std::iter::from_fn(|| items(queue.take(at(5))).pop()).collect();
    assert_eq!(order, [12, 14, 11, 13, 20], "the postponed ones in the order of their arrival");
    assert_eq!(queue.next_deadline(), None);
}

#[test]
fn a_postponed_request_counts_expires_and_can_be_removed() {
    let mut queue = levels(1, 0, &[]);
    let mut push = |item, deadline| {
        let postpone = Some(at(5));
        queue.push(at(0), Arrival { postpone, deadline, ..at_level(2, arrival(1, 1, item)) }).expect("room")
    };
    let leaver = push(1, None);
    push(2, Some(at(9)));
    assert!(queue.expire(at(5)).is_empty());
    assert!(queue.is_full(2), "postponed ones count");
    assert_eq!(queue.remove(leaver), Some(1));
    assert_eq!(queue.expire(at(9)), [2], "the deadline still refuses");
    assert!(queue.is_empty() && queue.next_deadline().is_none() && queue.lanes() == 0);
}

#[test]
fn a_postponement_can_make_a_batch_ready() {
    let mut queue = levels(8, 100, &[2, 8]);
    queue.push(at(0), Arrival { postpone: Some(at(5)), ..arrival(1, 1, 1) }).expect("room");
    queue.push(at(0), arrival(1, 2, 2)).expect("room");
    assert_eq!(queue.decide(at(5)), Decision::WaitUntil(at(100)));
    assert!(queue.expire(at(5)).is_empty());
    assert_eq!(queue.decide(at(5)), Decision::Run, "now the first two rows are a preferred size");
    assert_eq!(items(queue.take(at(5))), [2]);
    assert_eq!(queue.decide(at(5)), Decision::WaitUntil(at(100)));
}

#[test]
fn without_levels_and_delaying_timeouts_arrival_is_all_that_counts() {
    let mut queue = queue(1, 0, &[]);
    for (level, item) in [(3, 1), (1, 2), (2, 3)] {
        let arrival = Arrival { postpone: Some(at(1)), ..at_level(level, arrival(1, 1, item)) };
        queue.push(at(0), arrival).expect("room");
    }
    assert_eq!((queue.next_deadline(), queue.len_by_level()), (None, BTreeMap::new()));
    let order: Vec<u32> = std::iter::from_fn(|| items(queue.take(at(2))).pop()).collect();
    assert_eq!(order, [1, 2, 3]);
}

#[test]
fn a_request_in_pieces_leaves_in_order_and_counts_as_one() {
    for mut queue in [queue(4, 0, &[]), levels(4, 0, &[])] {
        queue.push(at(0), arrival(1, 1, 1)).expect("room");
        let ticket = queue.push(at(0), in_pieces(1, &[4, 4, 2], 10)).expect("room");
        queue.push(at(0), arrival(1, 2, 2)).expect("room");
        assert_eq!((queue.len(), queue.rows()), (3, 13));
        assert_eq!(items(queue.take(at(0))), [1]);
        assert_eq!(items(queue.take(at(0))), [10]);
        assert_eq!((queue.len(), queue.rows(), queue.contains(ticket)), (2, 8, true));
        assert_eq!(items(queue.take(at(0))), [11]);
        assert_eq!(items(queue.take(at(0))), [12, 2], "the last piece has room for others");
        assert_eq!((queue.len(), queue.rows(), queue.contains(ticket), queue.lanes()), (0, 0, false, 0));
    }
}

#[test]
fn what_happens_to_a_request_happens_to_all_its_pieces() {
    let mut queue = levels(4, 0, &[]);
    let ticket = queue.push(at(0), in_pieces(1, &[4, 4, 2], 10)).expect("room");
    let expiring = Arrival { deadline: Some(at(9)), ..in_pieces(2, &[4, 1], 20) };
    queue.push(at(0), expiring).expect("room");
    queue.push(at(0), Arrival { postpone: Some(at(5)), ..in_pieces(3, &[4, 1], 30) }).expect("room");
    queue.push(at(0), arrival(3, 4, 40)).expect("room");
    assert_eq!(items(queue.take(at(0))), [10]);
    assert_eq!(queue.remove(ticket), Some(11), "the first that still waits");
    assert_eq!((queue.remove(ticket), queue.rows()), (None, 14));
    assert_eq!(queue.take(at(9)).expired, [20]);
    let order: Vec<Vec<u32>> = (0..2).map(|_| items(queue.take(at(9)))).collect();
    assert_eq!(order, [[30], [31]], "40 went with the batch that handed back the expired one");
    assert_eq!((queue.len(), queue.rows(), queue.lanes()), (0, 0, 0));
}
