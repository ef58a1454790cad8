//! `--cache-config` and its older name `--response-cache-byte-size`: how much of what models answered is kept.

use std::num::NonZeroU64;

use super::triton::TritonArgs;

/// The one kind of cache there is.
const LOCAL: &str = "local";

/// Most bytes of answers that are kept; `None` where none are. Like Triton, a size of 0 of the older flag keeps none.
pub(super) fn response_cache_bytes(args: &TritonArgs, problems: &mut Vec<String>) -> Option<NonZeroU64> {
    if args.response_cache_byte_size.is_some() && !args.cache_config.is_empty() {
        problems.push(
            "response_cache_byte_size is the older name of cache_config, and both are given; leave it out".to_owned(),
        );
    }
    let mut bytes = args.response_cache_byte_size.and_then(NonZeroU64::new);
    for text in &args.cache_config {
        match local_size(text) {
            Ok(size) => bytes = Some(size),
            Err(problem) => problems.push(format!("cache_config {text:?} {problem}")),
        }
    }
    bytes
}

/// Reads `local,size=BYTES`.
fn local_size(text: &str) -> Result<NonZeroU64, String> {
    const FORM: &str = "must be local,size=BYTES";
    let (cache, setting) = text.split_once(',').ok_or(FORM)?;
    if cache != LOCAL {
        return Err(format!("names the cache '{cache}'; the only one here is '{LOCAL}', in the memory of the server"));
    }
    let (key, value) = setting.split_once('=').ok_or(FORM)?;
    if key != "size" {
        return Err(format!("has the unknown key '{key}'; it {FORM}"));
    }
    value.parse().map_err(|_| format!("has the size '{value}'; it must be a number of bytes, at least 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: &[&str], byte_size: Option<u64>) -> (Option<u64>, Vec<String>) {
        let cache_config = config.iter().map(|&text| text.to_owned()).collect();
        let args = TritonArgs { cache_config, response_cache_byte_size: byte_size, ..TritonArgs::default() };
        let mut problems = Vec::new();
        (response_cache_bytes(&args, &mut problems).map(NonZeroU64::get), problems)
    }

    #[test]
    fn sizes_of_both_names_are_read() {
        assert_eq!(read(&[], None), (None, Vec::new()));
        assert_eq!(read(&["local,size=1048576"], None), (Some(1_048_576), Vec::new()));
        assert_eq!(read(&[], Some(5)), (Some(5), Vec::new()));
        assert_eq!(read(&[], Some(0)), (None, Vec::new()));
    }

    #[test]
    fn what_is_no_size_is_refused_with_its_form() {
        for (config, expected) in [
            ("local", "must be local,size=BYTES"),
            ("local,size", "must be local,size=BYTES"),
            ("local,bytes=1", "has the unknown key 'bytes'; it must be local,size=BYTES"),
            ("local,size=0", "has the size '0'; it must be a number of bytes, at least 1"),
            ("local,size=1MB", "has the size '1MB'; it must be a number of bytes, at least 1"),
            ("redis,host=cache", "names the cache 'redis'; the only one here is 'local', in the memory of the server"),
        ] {
            assert_eq!(read(&[config], None).1, [format!("cache_config {config:?} {expected}")]);
        }
        let (_, problems) = read(&["local,size=1"], Some(1));
        assert!(matches!(&problems[..], [problem] if problem.contains("both are given")), "{problems:?}");
    }
}
