//! Whether clients may use shared memory, and how much of it.

use super::ServeArgs;
use super::bounds::Bounds;
use crate::shared_memory::RegionLimits;

/// The bounds; none where shared memory is off. What is said of them is checked either way.
pub(super) fn limits(args: &ServeArgs, bounds: &mut Bounds) -> Option<RegionLimits> {
    let mut mebibytes = |name, given, default| bounds.within_u64(name, given, default, (1, 1 << 30)) << 20;
    let bytes_max = mebibytes("shared_memory_mb", args.shared_memory_mb, 4_096);
    let request_bytes_max = mebibytes("shared_memory_request_mb", args.shared_memory_request_mb, 64);
    let regions_max = bounds.within("shared_memory_regions", args.shared_memory_regions, 1_024, (1, 65_536));
    args.triton.allow_client_shm.unwrap_or(false).then_some(RegionLimits { regions_max, bytes_max, request_bytes_max })
}
