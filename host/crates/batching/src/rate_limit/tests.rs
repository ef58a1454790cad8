use std::sync::PoisonError;

use model::RateResource;

use super::*;

fn one_of(name: &str) -> RateLimit {
    needing(&[(name, 1)])
}

fn needing(resources: &[(&str, u32)]) -> RateLimit {
    let resource = |&(name, count): &(&str, u32)| {
        let count = NonZeroU32::new(count).expect("at least 1");
        RateResource { name: name.into(), scope: RateScope::Device, count }
    };
    RateLimit { resources: resources.iter().map(resource).collect(), priority: NonZeroU32::MIN }
}

/// Permits as they are delivered.
type Mailbox = Arc<Mutex<Vec<Permit>>>;

fn member(limiter: &RateLimiter) -> (Member, Mailbox) {
    member_needing(limiter, &[("r", 1)])
}

fn member_needing(limiter: &RateLimiter, resources: &[(&str, u32)]) -> (Member, Mailbox) {
    let mailbox = Mailbox::default();
    let inbox = Arc::clone(&mailbox);
    let deliver = move |permit| inbox.lock().unwrap_or_else(PoisonError::into_inner).push(permit);
    (limiter.join(&needing(resources), Arc::new(deliver)).expect("there is enough"), mailbox)
}

fn take(mailbox: &Mailbox) -> Option<Permit> {
    mailbox.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

fn held(limiter: &RateLimiter) -> u32 {
    limiter.resources().iter().map(|(.., held)| held).sum()
}

#[test]
fn a_permit_given_back_is_delivered_to_who_waits() {
    let limiter = RateLimiter::default();
    let [(first, _), (second, mailbox), (third, other)] = std::array::from_fn(|_| member(&limiter));
    let permit = first.ask().expect("free");
    assert!(second.ask().is_none() && third.ask().is_none());
    drop(permit);
    let permit = take(&mailbox).expect("delivered");
    assert!(take(&other).is_none());
    drop(permit);
    drop(take(&other).expect("delivered"));
    assert_eq!(held(&limiter), 0);
}

#[test]
fn a_permit_for_who_has_left_goes_to_the_next() {
    let limiter = RateLimiter::default();
    let [(first, _), (second, mailbox), (third, other)] = std::array::from_fn(|_| member(&limiter));
    let permit = first.ask().expect("free");
    assert!(second.ask().is_none() && third.ask().is_none());
    drop(second);
    drop(permit);
    assert!(take(&mailbox).is_none());
    drop(take(&other).expect("delivered"));
    drop((first, third));
    assert_eq!(limiter.resources(), []);
}

#[test]
fn thousands_who_hand_their_permit_on_at_once_need_no_stack() {
    let limiter = RateLimiter::default();
    let (first, _) = member(&limiter);
    let permit = first.ask().expect("free");
    let all: Vec<_> = (0..2_000).map(|_| limiter.join(&one_of("r"), Arc::new(drop)).expect("enough")).collect();
    assert!(all.iter().all(|member| member.ask().is_none()));
    let small = std::thread::Builder::new().stack_size(64 << 10);
    let handing_on = small.spawn(move || drop(permit)).expect("a thread");
    handing_on.join().expect("no overflow");
    assert_eq!(held(&limiter), 0);
}

#[test]
fn a_closed_gate_neither_holds_nor_asks() {
    let limiter = RateLimiter::default();
    let [(first, _), (second, mailbox)] = std::array::from_fn(|_| member(&limiter));
    let [mut open, mut shut] = [first, second].map(Gate::new);
    assert!(open.open() && open.open(), "once is enough");
    assert_eq!(held(&limiter), 1);
    assert!(!shut.open() && !shut.is_open());
    assert!(shut.close().is_none(), "it only asked");
    drop(open.close().expect("what it held"));
    assert!(take(&mailbox).is_none(), "nobody asks any more");
    assert!(shut.open() && shut.pass().is_some() && !shut.is_open());
}

#[test]
fn a_gate_keeps_one_permit() {
    let limiter = RateLimiter::new([("r".into(), NonZeroU32::MIN.saturating_add(1))].into());
    let (member, _) = member(&limiter);
    let mut gate = Gate::new(member);
    assert!(gate.open());
    let (other, _) = self::member(&limiter);
    let surplus = other.ask().expect("two of them");
    assert!(gate.receive(surplus).is_some() && gate.is_open());
}

/// One that holds `x`, one that waits for it with `y` set aside, and one that waits for `y`, which is free.
fn behind_one_that_waits(limiter: &RateLimiter) -> (Permit, Member, [(Member, Mailbox); 2]) {
    let (long, _) = member_needing(limiter, &[("x", 1)]);
    let ahead = member_needing(limiter, &[("x", 1), ("y", 1)]);
    let behind = member_needing(limiter, &[("y", 1)]);
    let permit = long.ask().expect("free");
    assert!(ahead.0.ask().is_none() && behind.0.ask().is_none(), "it is set aside for who is ahead");
    (permit, long, [ahead, behind])
}

#[test]
fn what_was_set_aside_for_one_that_withdraws_goes_to_who_waits_behind_it() {
    let limiter = RateLimiter::default();
    let (_permit, _long, [(ahead, _), (_behind, mailbox)]) = behind_one_that_waits(&limiter);
    let handout = ahead.withdraw();
    assert!(take(&mailbox).is_none(), "nothing is delivered while the caller may hold its lock");
    drop(handout);
    drop(take(&mailbox).expect("delivered, though nothing has been given back"));
    assert_eq!(held(&limiter), 1);
}

#[test]
fn what_was_set_aside_for_one_that_leaves_goes_to_who_waits_behind_it() {
    let limiter = RateLimiter::default();
    let (_permit, _long, [(ahead, _), (_behind, mailbox)]) = behind_one_that_waits(&limiter);
    drop(ahead);
    drop(take(&mailbox).expect("delivered, though nothing has been given back"));
}

#[test]
fn a_larger_total_is_used_at_once() {
    let limiter = RateLimiter::default();
    let [(first, _), (second, mailbox)] = std::array::from_fn(|_| member(&limiter));
    let _permit = first.ask().expect("free");
    assert!(second.ask().is_none(), "there is one");
    let _neediest = member_needing(&limiter, &[("r", 3)]);
    drop(take(&mailbox).expect("there are three now"));
    assert_eq!(held(&limiter), 1);
}
