//! Whether there is memory for a load: what the system or the container has left, against what the model will take and
//! what must stay free. A server that the kernel kills for memory serves nobody.

use std::fs;
use std::path::Path;

/// Memory that a load takes at its peak for each byte of its files: ONNX Runtime holds the file and the weights made of
/// it side by side while it loads.
const BYTES_PER_FILE_BYTE: u64 = 2;

/// A load that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "loading it takes about {needed} bytes and {headroom} must stay free (--model-load-headroom-mb), but {available} are \
     left; unload something, raise the memory limit, or lower the headroom"
)]
pub struct NoHeadroom {
    needed: u64,
    headroom: u64,
    available: u64,
}

/// Checks a load of files of so many bytes; `available` is `None` where the system does not say what is left.
///
/// # Errors
/// [`NoHeadroom`] where less than `headroom` would be left.
pub fn check(file_bytes: u64, headroom: u64, available: Option<u64>) -> Result<(), NoHeadroom> {
    let Some(available) = available else { return Ok(()) };
    let needed = file_bytes.saturating_mul(BYTES_PER_FILE_BYTE);
    if needed.saturating_add(headroom) <= available {
        return Ok(());
    }
    Err(NoHeadroom { needed, headroom, available })
}

/// Bytes that this process can still get: the least of what the system has and what each memory group that it is in
/// allows. Sources: `proc_meminfo(5)`; the kernel's "Control Group v2", `memory.max` and `memory.current`.
#[must_use]
pub fn available_bytes() -> Option<u64> {
    let system = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo_available(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| group_path(&text).map(str::to_owned));
    let group = groups.and_then(|path| least_of_groups(Path::new("/sys/fs/cgroup"), &path));
    system.into_iter().chain(group).min()
}

fn meminfo_available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

/// The path of the unified hierarchy.
fn group_path(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

/// What is left in the group at `path` below `root` and in every group around it. Inside a container the path may not
/// exist: then `root` itself is the group.
fn least_of_groups(root: &Path, path: &str) -> Option<u64> {
    let own = root.join(path.trim_start_matches('/'));
    let groups = own.ancestors().take_while(|group| group.starts_with(root));
    groups.filter_map(left_in_group).min()
}

fn left_in_group(group: &Path) -> Option<u64> {
    let number = |file: &str| fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
    let (max, current) = (number("memory.max")?, number("memory.current")?);
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    // Files in the page cache that nobody has used lately make room when it is needed.
    let reclaimable = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse::<u64>().ok());
    Some(max.saturating_sub(current).saturating_add(reclaimable.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_must_leave_the_headroom() {
        assert_eq!(check(100, 50, Some(250)), Ok(()));
        assert_eq!(check(100, 50, None), Ok(()), "nobody knows");
        let error = check(100, 51, Some(250)).expect_err("one byte too many");
        assert_eq!(
            error.to_string(),
            "loading it takes about 200 bytes and 51 must stay free (--model-load-headroom-mb), but 250 are left; unload \
             something, raise the memory limit, or lower the headroom"
        );
        assert!(check(u64::MAX, u64::MAX, Some(u64::MAX - 1)).is_err());
    }

    #[test]
    fn the_systems_words_are_understood() {
        let text = "MemTotal:       24576 kB\nMemFree:         1 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(meminfo_available(text), Some(2 << 20));
        assert_eq!(group_path("1:cpu:/a\n0::/kubepods/pod1\n"), Some("/kubepods/pod1"));
        assert!(available_bytes().is_some_and(|bytes| bytes > 0), "this system says what is left");
    }

    #[test]
    fn the_tightest_group_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("written");
        };
        write("pod/memory.max", "1000\n");
        write("pod/memory.current", "900\n");
        write("pod/memory.stat", "anon 1\ninactive_file 50\n");
        write("pod/own/memory.max", "max\n");
        write("pod/own/memory.current", "10\n");
        assert_eq!(least_of_groups(root.path(), "/pod/own"), Some(150));
        assert_eq!(least_of_groups(root.path(), "/elsewhere"), None);
        write("memory.max", "100\n");
        write("memory.current", "200\n");
        assert_eq!(least_of_groups(root.path(), "/elsewhere"), Some(0));
    }
}
