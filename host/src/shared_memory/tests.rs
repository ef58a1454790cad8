//! Which regions are taken, which parts of them, and what becomes of both while clients meddle with their objects.

use std::sync::Arc;

use model::{DataType, ErrorCode, Tensor};
use proptest::prelude::{any, prop_assert_eq, proptest};

use super::fixture::{ClientObject, memory};
use super::*;

fn claim(offset: u64, byte_size: u64) -> PartClaim {
    PartClaim { region: "r".to_owned(), offset, byte_size }
}

/// Memory with the region `r`.
fn with_region(place: RegionPlace) -> SharedMemory {
    let memory = memory();
    memory.register("r", place).expect("registered");
    memory
}

fn output(data: &'static [u8]) -> Tensor {
    Tensor::new("y".into(), DataType::Uint8, vec![data.len() as u64], Bytes::from_static(data)).expect("fits")
}

#[test]
fn regions_that_are_taken_are_listed_until_they_are_unregistered() {
    let (memory, object) = (memory(), ClientObject::new(&[7; 64]));
    memory.register("whole", object.place(0, 64)).expect("all of it");
    // A key is the same with a slash at its start and without.
    let bare = RegionPlace { key: object.key()[1..].to_owned(), ..object.place(63, 1) };
    memory.register("last byte", bare.clone()).expect("the same object again");
    let listed: Vec<_> = memory.places().into_iter().map(|(name, place)| (name.to_string(), place)).collect();
    assert_eq!(listed, [("last byte".to_owned(), bare.clone()), ("whole".to_owned(), object.place(0, 64))]);
    assert_eq!((memory.place("last byte"), memory.open_regions()), (Ok(bare), (2, 65)));
    memory.unregister("whole").expect("known");
    memory.unregister("whole").expect("no longer known");
    assert_eq!(memory.open_regions(), (1, 1));
    memory.unregister_all().expect("the other one");
    assert_eq!((memory.places().len(), memory.open_regions()), (0, (0, 0)));
}

#[test]
fn regions_that_are_refused() {
    let (memory, object) = (memory(), ClientObject::new(&[0; 64]));
    let (link, pipe) = (format!("{}-link", object.key()), format!("{}-pipe", object.key()));
    let path = |key: &str| format!("/dev/shm{key}");
    std::os::unix::fs::symlink(path(&object.key()), path(&link)).expect("a link");
    rustix::fs::mknodat(rustix::fs::CWD, path(&pipe), rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    let key = object.key();
    let named = |key: &str| RegionPlace { key: key.to_owned(), offset: 0, byte_size: 1 };
    let unopened = |key: &str, reason: &str| format!("Unable to open shared memory region: '{key}' ({reason})");
    let misplaced = |reason: &str| format!("failed to register shared memory region 'r': invalid args ({reason})");
    let cases = [
        (named("/airlock-test-absent"), ErrorCode::InvalidRegion, unopened("/airlock-test-absent", "No such file or directory (os error 2)")),
        (named(""), ErrorCode::InvalidRegion, unopened("", "a key names an object")),
        (named("/../etc/hostname"), ErrorCode::InvalidRegion, unopened("/../etc/hostname", "a key has no slash but at its start")),
        (named(&link), ErrorCode::InvalidRegion, unopened(&link, "Too many levels of symbolic links (os error 40)")),
        (named(&pipe), ErrorCode::InvalidRegion, unopened(&pipe, "it is no shared memory object")),
        (
            named("/triton_python_backend_shm_region_1"),
            ErrorCode::InvalidRegion,
            "cannot register shared memory region 'r' with key '/triton_python_backend_shm_region_1' as the key contains \
             the reserved prefix 'triton_python_backend_shm_region_'"
                .to_owned(),
        ),
        (object.place(0, 0), ErrorCode::InvalidRegion, misplaced("byte_size is 0")),
        (object.place(0, 65), ErrorCode::InvalidRegion, misplaced("offset 0 and byte_size 65 in an object of 64 bytes")),
        (object.place(64, 1), ErrorCode::InvalidRegion, misplaced("offset 64 and byte_size 1 in an object of 64 bytes")),
        (
            object.place(u64::MAX, 1),
            ErrorCode::InvalidRegion,
            misplaced("offset 18446744073709551615 and byte_size 1 in an object of 64 bytes"),
        ),
        (
            object.place(0, u64::MAX),
            ErrorCode::InvalidRegion,
            "failed to register shared memory region 'r': its 18446744073709551615 bytes and the 0 registered ones are more \
             than 1048576; unregister one, or raise --shared-memory-mb"
                .to_owned(),
        ),
    ];
    for (place, code, text) in cases {
        let error = memory.register("r", place).expect_err(&text);
        assert_eq!((error.code(), error.to_string()), (code, text));
    }
    assert_eq!(memory.open_regions(), (0, 0), "what is refused is not held open");
    for key in [link, pipe] {
        std::fs::remove_file(path(&key)).expect("removed");
    }
    memory.register("r", named(&key)).expect("nothing of the above is in its way");
}

#[test]
fn names_and_limits() {
    let (memory, object) = (memory(), ClientObject::new(&[0; 8]));
    let refused = |name: &str| memory.register(name, object.place(0, 8)).expect_err("refused").to_string();
    assert_eq!(refused(""), "'region name' is necessary to register system shared memory region");
    assert_eq!(refused(&"n".repeat(1_025)), "a shared memory region's name has 1024 bytes at most, got 1025");
    for name in ["1", "2", "3", "r"] {
        memory.register(name, object.place(0, 8)).expect("room");
    }
    assert_eq!(refused("r"), "shared memory region 'r' already in manager");
    assert_eq!(
        refused("5"),
        "4 shared memory regions are registered; unregister one, or raise --shared-memory-regions"
    );
    memory.unregister("1").expect("known");
    memory.register("5", object.place(0, 8)).expect("room again");
    assert_eq!(memory.open_regions(), (4, 32));
}

#[test]
fn the_bytes_of_all_regions_are_bounded() {
    let object = ClientObject::new(&[]);
    object.file().set_len(1 << 20).expect("longer");
    let memory = with_region(object.place(0, (1 << 20) - 8));
    let error = memory.register("s", object.place(0, 9)).expect_err("one too many");
    assert_eq!(error.code(), ErrorCode::RegionsExhausted);
    memory.register("s", object.place(0, 8)).expect("exactly as many as there may be");
}

#[test]
fn parts_that_do_not_lie_in_their_region_are_refused_in_tritons_words() {
    let object = ClientObject::new(&[0; 64]);
    let memory = with_region(object.place(16, 8));
    let max = u64::MAX;
    for (claim, text) in [
        (claim(8, 0), "Invalid offset for shared memory region: 'r' (offset 8 in 8 bytes)".to_owned()),
        (claim(max, 1), format!("Invalid offset for shared memory region: 'r' (offset {max} in 8 bytes)")),
        (
            claim(0, 9),
            "Invalid offset + byte size for shared memory region: 'r' (offset 0 and 9 bytes in 8)".to_owned(),
        ),
        (
            claim(7, 2),
            "Invalid offset + byte size for shared memory region: 'r' (offset 7 and 2 bytes in 8)".to_owned(),
        ),
        (
            claim(1, max),
            format!(
                "Integer overflow detected: byte_size ({max}) + offset (1) exceeds maximum value ({max}) for region 'r'"
            ),
        ),
    ] {
        let error = memory.part(&claim).expect_err(&text);
        assert_eq!((error.code(), error.to_string()), (ErrorCode::InvalidRegion, text));
    }
    let unknown = memory.part(&PartClaim { region: "s".to_owned(), ..claim(0, 8) }).expect_err("not registered");
    assert_eq!(unknown.code(), ErrorCode::RegionNotFound);
    assert_eq!(unknown.to_string(), "Unable to find shared memory region: 's'");
    let status = memory.place("s").expect_err("not registered");
    assert_eq!(status.to_string(), "Unable to find system shared memory region: 's'");
}

proptest! {
    /// What is read is what the object holds there, for every part that lies within, and nothing for any other.
    #[test]
    fn a_part_is_read_if_and_only_if_it_lies_in_its_region(
        (start, length, offset, size) in (0..48_u64, 1..16_u64, 0..20_u64, 0..20_u64)
    ) {
        let content: Vec<u8> = (0..64).collect();
        let object = ClientObject::new(&content);
        let memory = with_region(object.place(start, length));
        let read = memory.reader().read(&claim(offset, size)).ok();
        let lies_within = offset < length && offset + size <= length;
        let from = (start + offset) as usize;
        let expected = lies_within.then(|| Bytes::copy_from_slice(&content[from..from + size as usize]));
        prop_assert_eq!(read, expected);
    }

    /// No numbers lead beyond a region, or to a panic.
    #[test]
    fn no_part_reaches_beyond_its_region(offset in any::<u64>(), size in any::<u64>(), near in any::<bool>()) {
        let object = ClientObject::new(&[1; 8]);
        let memory = with_region(object.place(4, 4));
        let offset = if near { offset % 8 } else { offset };
        let lies_within = offset.checked_add(size).is_some_and(|end| offset < 4 && end <= 4);
        prop_assert_eq!(memory.part(&claim(offset, size)).is_ok(), lies_within);
    }
}

#[test]
fn one_request_takes_no_more_than_it_may() {
    let object = ClientObject::new(&[0; 1_024]);
    let memory = with_region(object.place(0, 1_024));
    let mut reader = memory.reader();
    reader.read(&claim(0, 1_000)).expect("within");
    let error = reader.read(&claim(0, 25)).expect_err("together too much");
    assert_eq!(error.code(), ErrorCode::BodyTooLarge);
    let text = "the request's inputs take more than 1024 bytes out of shared memory; raise --shared-memory-request-mb to allow it";
    assert_eq!(error.to_string(), text);
    reader.read(&claim(0, 24)).expect("exactly as much as it may");
    memory.reader().read(&claim(0, 1_024)).expect("another request");
}

#[test]
fn an_object_that_is_cut_short_fails_its_request_and_nothing_else() {
    let (object, other) = (ClientObject::new(b"abcdefgh"), ClientObject::new(b"........"));
    let memory = with_region(object.place(0, 8));
    memory.register("other", other.place(0, 8)).expect("registered");
    object.file().set_len(4).expect("cut");
    let error = memory.reader().read(&claim(0, 8)).expect_err("half of it is gone");
    assert_eq!(error.code(), ErrorCode::InvalidRegion);
    let key = object.key();
    let text =
        format!("shared memory region 'r' cannot be used: its object '{key}' is shorter than when it was registered");
    assert_eq!(error.to_string(), text);
    assert_eq!(memory.reader().read(&claim(0, 4)).expect("what is left"), "abcd");

    let mut writes = RegionWrites::default();
    let sound = memory.part(&PartClaim { region: "other".to_owned(), ..claim(0, 8) }).expect("within");
    writes.add(sound, &output(b"first")).expect("fits");
    writes.add(memory.part(&claim(2, 6)).expect("within the region"), &output(b"second")).expect("fits");
    assert_eq!(writes.write().expect_err("no room").to_string(), text);
    assert_eq!((object.content(), other.content()), (b"abcd".to_vec(), b"........".to_vec()), "all or nothing");
}

#[test]
fn outputs_are_written_where_they_belong_and_only_once_all_fit() {
    let object = ClientObject::new(&[b'.'; 12]);
    let memory = with_region(object.place(2, 8));
    let part = |offset, size| memory.part(&claim(offset, size)).expect("within");
    let mut writes = RegionWrites::default();
    writes.add(part(0, 4), &output(b"abc")).expect("fits");
    writes.add(part(7, 1), &output(b"z")).expect("fits");
    writes.add(part(1, 0), &output(b"")).expect("nothing fits nowhere");
    let error = writes.add(part(4, 2), &output(b"abc")).expect_err("too large");
    assert_eq!(error.code(), ErrorCode::InvalidRegion);
    let text = "shared memory size specified with the request for output 'y' (2 bytes) should be at least 3 bytes to hold the \
                results";
    assert_eq!(error.to_string(), text);
    assert_eq!(object.content(), b"............", "nothing is written yet");
    writes.write().expect("written");
    assert_eq!(object.content(), b"..abc....z..");
}

#[test]
fn requests_under_way_keep_what_is_unregistered_unlinked_or_replaced() {
    let object = ClientObject::new(b"old");
    let memory = with_region(object.place(0, 3));
    let part = memory.part(&claim(0, 3)).expect("within");
    let path = format!("/dev/shm{}", object.key());
    std::fs::remove_file(&path).expect("unlinked");
    std::fs::write(&path, "new").expect("another object of this name");
    assert_eq!(memory.reader().read(&claim(0, 3)).expect("still registered"), "old");
    memory.unregister("r").expect("known");
    assert_eq!((part.read().expect("still open"), memory.open_regions()), ("old".into(), (1, 3)));
    memory.register("r", object.place(0, 3)).expect("the name is free");
    assert_eq!(memory.reader().read(&claim(0, 3)).expect("registered"), "new");
    drop(part);
    assert_eq!(memory.open_regions(), (1, 3), "only the new one");
}

#[test]
fn registrations_at_once_keep_to_the_limits() {
    let object = ClientObject::new(&[0; 8]);
    let memory = Arc::new(memory());
    let taken: usize = std::thread::scope(|scope| {
        let register = |thread: usize| {
            let (memory, object) = (&memory, &object);
            move || (0..8).filter(|i| memory.register(&format!("{thread}/{i}"), object.place(0, 8)).is_ok()).count()
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(register(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!((taken, memory.places().len(), memory.open_regions()), (4, 4, (4, 32)));
}

#[test]
fn what_is_off_has_no_regions() {
    let object = ClientObject::new(&[0; 8]);
    let text = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";
    for outcome in [
        DISABLED.register("r", object.place(0, 8)),
        DISABLED.unregister("r"),
        DISABLED.unregister_all(),
        DISABLED.part(&claim(0, 8)).map(drop),
        DISABLED.reader().read(&claim(0, 8)).map(drop),
    ] {
        let error = outcome.expect_err("off");
        assert_eq!((error.code(), error.to_string()), (ErrorCode::SharedMemoryDisabled, text.to_owned()));
    }
    assert_eq!((DISABLED.places().len(), DISABLED.open_regions()), (0, (0, 0)));
}
