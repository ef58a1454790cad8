use std::num::NonZeroU32;

use model::RateResource;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;

fn limit(priority: u32, resources: &[(&str, RateScope, u32)]) -> RateLimit {
    let number = |number| NonZeroU32::new(number).expect("at least 1");
    let resource = |&(name, scope, count): &(&str, RateScope, u32)| RateResource {
        name: Arc::from(name),
        scope,
        count: number(count),
    };
    RateLimit { resources: resources.iter().map(resource).collect(), priority: number(priority) }
}

/// Needs this much of the device's `r`.
fn needing(priority: u32, count: u32) -> RateLimit {
    limit(priority, &[("r", RateScope::Device, count)])
}

fn table(totals: &[(&str, u32)]) -> Table {
    Table::new(totals.iter().map(|&(name, total)| (name.into(), total)).collect())
}

fn join(table: &mut Table, limit: &RateLimit) -> MemberId {
    table.join(limit).expect("there is enough")
}

/// Gives a permit back and returns who is next.
fn next(table: &mut Table, id: MemberId) -> Vec<MemberId> {
    table.give_back(id);
    table.grant()
}

#[test]
fn there_is_as_much_as_the_neediest_needs_unless_a_total_says_otherwise() {
    let mut table = table(&[("given", 9)]);
    let all = [
        limit(1, &[("r", RateScope::Device, 2), ("given", RateScope::Device, 1)]),
        limit(1, &[("r", RateScope::Device, 5), ("r", RateScope::Global, 1)]),
    ];
    let [_, second] = all.map(|limit| join(&mut table, &limit));
    let totals = |table: &Table| -> Vec<(String, RateScope, u32)> {
        table.resources().into_iter().map(|(name, scope, total, _)| (name.to_string(), scope, total)).collect()
    };
    let expected = |r: u32| {
        [("given", RateScope::Device, 9), ("r", RateScope::Device, r), ("r", RateScope::Global, 1)]
            .map(|(name, scope, total)| (name.to_owned(), scope, total))
    };
    assert_eq!(totals(&table), expected(5));
    table.leave(second);
    assert_eq!(totals(&table), expected(2)[..2], "who has left needs nothing");
}

#[test]
fn who_could_never_run_is_refused() {
    let error = table(&[("r", 3)]).join(&needing(1, 4)).expect_err("4 of 3");
    assert_eq!(
        error.to_string(),
        "resource 'r' is limited to 3 and an instance needs 4; raise it with --rate-limit-resource, or lower the count in rate_limiter"
    );
}

#[test]
fn who_does_not_get_it_at_once_gets_it_when_it_comes_back() {
    let mut table = table(&[("r", 2)]);
    let [one, two, three] = [1, 1, 1].map(|count| join(&mut table, &needing(1, count)));
    assert!(table.ask(one) && table.ask(two) && !table.ask(three));
    assert!(!table.ask(three), "asking again changes nothing");
    assert_eq!(next(&mut table, two), [three]);
    assert_eq!(next(&mut table, three), []);
    assert!(table.ask(three), "a member may hold several permits");
}

#[test]
fn a_large_need_is_not_starved_by_small_ones_and_holds_up_only_who_shares_it() {
    let mut table = table(&[("r", 2), ("other", 1)]);
    let [small, large, late] = [1, 2, 1].map(|count| join(&mut table, &needing(1, count)));
    let elsewhere = join(&mut table, &limit(1, &[("other", RateScope::Global, 1)]));
    assert!(table.ask(small) && !table.ask(large));
    assert!(!table.ask(late), "one is free, but it is the large one's turn");
    assert!(table.ask(elsewhere));
    assert_eq!(next(&mut table, small), [large]);
    table.withdraw(late);
    assert_eq!(next(&mut table, large), [], "who has withdrawn gets nothing");
}

#[test]
fn who_leaves_while_it_holds_something_gives_it_back_all_the_same() {
    let mut table = table(&[]);
    let [one, two] = [3, 3].map(|count| join(&mut table, &needing(1, count)));
    assert!(table.ask(one) && !table.ask(two));
    table.leave(one);
    assert_eq!(table.resources(), [("r".into(), RateScope::Device, 3, 3)]);
    assert_eq!(next(&mut table, one), [two]);
    table.leave(two);
    assert_eq!(next(&mut table, two), []);
    assert_eq!(table.resources(), []);
}

#[test]
fn priority_n_gets_one_nth_of_the_chances() {
    let mut table = table(&[("r", 1)]);
    let priorities = [1, 2, 4];
    let members = priorities.map(|priority| join(&mut table, &needing(priority, 1)));
    let mut runs = [0_u32; 3];
    let mut holder = members.into_iter().filter(|&id| table.ask(id)).collect::<Vec<_>>().pop();
    for _ in 0..7_000 {
        let id = holder.expect("all want to run");
        runs[members.iter().position(|&member| member == id).expect("a member")] += 1;
        assert!(!table.ask(id), "it is held");
        holder = next(&mut table, id).pop();
    }
    for (runs, expected) in runs.iter().zip([4_000_i64, 2_000, 1_000]) {
        assert!((i64::from(*runs) - expected).abs() <= 4, "{runs} for {expected}");
    }
}

#[test]
fn idling_saves_nothing_up() {
    let mut table = table(&[("r", 1)]);
    let [busy, idle] = [1, 1].map(|priority| join(&mut table, &needing(priority, 1)));
    assert!(table.ask(busy));
    for _ in 0..1_000 {
        assert!(!table.ask(busy));
        assert_eq!(next(&mut table, busy), [busy]);
    }
    assert!(!table.ask(idle) && !table.ask(busy));
    let mut turns = Vec::new();
    let mut holder = busy;
    for _ in 0..4 {
        holder = next(&mut table, holder)[0];
        turns.push(holder == idle);
        assert!(!table.ask(holder));
    }
    assert_eq!(turns.iter().filter(|is_idle| **is_idle).count(), 2, "turn and turn about: {turns:?}");
}

/// One run of members that come, ask, give up, run and leave at random.
fn simulate(seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    let names = ["a", "b", "c"];
    let totals: Vec<_> = names[..2].iter().map(|name| (*name, random.random_range(4..8))).collect();
    let mut table = table(&totals);
    let (mut members, mut permits): (Vec<MemberId>, Vec<MemberId>) = (Vec::new(), Vec::new());
    for _ in 0..400 {
        let pick = |random: &mut SmallRng, len: usize| (len > 0).then(|| random.random_range(0..len));
        match random.random_range(0..10) {
            0 if members.len() < 8 => {
                let scope = |random: &mut SmallRng| {
                    if random.random_bool(0.5) { RateScope::Device } else { RateScope::Global }
                };
                let used: Vec<_> = names.iter().filter(|_| random.random_bool(0.6)).copied().collect();
                let resources: Vec<_> =
                    used.iter().map(|name| (*name, scope(&mut random), random.random_range(1..=4))).collect();
                members.push(join(&mut table, &limit(random.random_range(1..4), &resources)));
            }
            1 => {
                if let Some(at) = pick(&mut random, members.len()) {
                    table.leave(members.swap_remove(at));
                }
            }
            2 => {
                if let Some(at) = pick(&mut random, members.len()) {
                    table.withdraw(members[at]);
                }
            }
            3..=6 => {
                if let Some(at) = pick(&mut random, members.len())
                    && table.ask(members[at])
                {
                    permits.push(members[at]);
                }
            }
            _ => {
                if let Some(at) = pick(&mut random, permits.len()) {
                    let id = permits.swap_remove(at);
                    permits.extend(next(&mut table, id));
                }
            }
        }
        for (name, _, total, held) in table.resources() {
            let was_larger = !totals.iter().any(|(given, _)| *given == &*name);
            assert!(held <= total || was_larger, "{held} of {total} {name}");
        }
        permits.extend(table.grant());
        assert!(table.waiting.is_empty() || !permits.is_empty(), "whoever waits, waits for somebody");
    }
    while let Some(id) = permits.pop() {
        permits.extend(next(&mut table, id));
    }
    assert!(table.waiting.is_empty(), "everybody got a turn");
    assert!(table.resources().iter().all(|(.., held)| *held == 0), "everything came back");
}

#[test]
fn nothing_is_held_beyond_its_total_and_everybody_gets_a_turn() {
    (0..300).for_each(simulate);
}
