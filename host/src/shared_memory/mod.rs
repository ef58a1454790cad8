//! System shared memory, Triton's extension: clients on the same machine register POSIX shared memory objects, and their
//! requests name parts of these regions in place of tensors. Off unless `--allow-client-shm` is given. [`SharedMemory`] owns
//! which regions there are; readers take a snapshot of the map, so no request waits for another's lookup. A region lives
//! until it is unregistered and the last request that names it has ended.
//!
//! Nothing is mapped. Inputs are read with `pread` and outputs written with `pwrite`: a client that cuts its object short
//! while the server uses it, which would end a process that has it mapped (`SIGBUS`), gets an error for that one request,
//! and one that changes its bytes under way changes nothing that was checked, since a copy was. It is one copy each way, in
//! place of those through a socket; what the engine reads is laid into the batch as for every other request.
//!
//! What always holds: a part lies within its region, and a region within its object as it was when it was registered;
//! objects are regular files of a `tmpfs`, so no read waits for a disk or a peer; only infer requests can name regions,
//! plugins never see one.

pub mod cuda;
mod error;
mod object;
mod part;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use bytes::Bytes;

pub use error::RegionError;
use object::Object;
pub use part::{RegionPart, RegionWrites};

/// Bytes of a region's name, at most.
const NAME_BYTES_MAX: usize = 1_024;

/// Bounds on what clients register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionLimits {
    /// Regions at once.
    pub regions_max: usize,
    /// Bytes of all regions together.
    pub bytes_max: u64,
    /// Bytes that one request's inputs take out of regions.
    pub request_bytes_max: u64,
}

/// Where a region lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionPlace {
    /// The object's name, as for `shm_open`.
    pub key: String,
    /// Its start in the object, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub byte_size: u64,
}

/// A part of a region as a request names it; whether there is one is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartClaim {
    /// The region's name.
    pub region: String,
    /// Its start in the region, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub byte_size: u64,
}

/// The registered regions; none, for good, where shared memory is off.
#[derive(Debug)]
pub struct SharedMemory {
    registry: Option<Registry>,
}

/// Shared memory that is off.
pub static DISABLED: SharedMemory = SharedMemory { registry: None };

type RegionMap = BTreeMap<Arc<str>, Arc<Region>>;

#[derive(Debug)]
struct Registry {
    limits: RegionLimits,
    regions: ArcSwap<RegionMap>,
    /// Held by whoever changes the map.
    change: Mutex<()>,
    open: Arc<OpenRegions>,
}

/// A registered part of an object. Dropped once it is unregistered and no request uses it.
#[derive(Debug)]
struct Region {
    place: RegionPlace,
    object: Object,
    open: Arc<OpenRegions>,
}

/// Regions that are open, whether they are registered still or only in use.
#[derive(Debug, Default)]
struct OpenRegions {
    count: AtomicU64,
    bytes: AtomicU64,
}

/// How much is open at one moment.
struct Taken {
    count: u64,
    bytes: u64,
}

impl Taken {
    fn of(open: &OpenRegions) -> Self {
        Self { count: open.count.load(Ordering::Relaxed), bytes: open.bytes.load(Ordering::Relaxed) }
    }

    /// Without a region that is open and not registered yet.
    fn without(self, region: &Region) -> Self {
        let bytes = self.bytes.saturating_sub(region.place.byte_size);
        Self { count: self.count.saturating_sub(1), bytes }
    }
}

impl Region {
    fn open(name: &str, place: RegionPlace, open: &Arc<OpenRegions>) -> Result<Self, RegionError> {
        let object = Object::open(name, &place.key)?;
        object.check_holds(name, &place)?;
        open.count.fetch_add(1, Ordering::Relaxed);
        open.bytes.fetch_add(place.byte_size, Ordering::Relaxed);
        Ok(Self { place, object, open: Arc::clone(open) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.open.count.fetch_sub(1, Ordering::Relaxed);
        self.open.bytes.fetch_sub(self.place.byte_size, Ordering::Relaxed);
    }
}

impl SharedMemory {
    /// Shared memory without regions: on within these limits, or off.
    #[must_use]
    pub fn new(limits: Option<RegionLimits>) -> Self {
        let registry = limits.map(|limits| Registry {
            limits,
            regions: ArcSwap::default(),
            change: Mutex::default(),
            open: Arc::default(),
        });
        Self { registry }
    }

    /// Whether clients may use it.
    ///
    /// # Errors
    /// [`RegionError::Disabled`].
    pub fn check_enabled(&self) -> Result<(), RegionError> {
        self.enabled().map(drop)
    }

    /// Makes a part of an object known under `name`.
    ///
    /// # Errors
    /// A [`RegionError`] for a name that is taken, an object that cannot be had or is too short, and a limit that is reached.
    pub fn register(&self, name: &str, place: RegionPlace) -> Result<(), RegionError> {
        let registry = self.enabled()?;
        if name.is_empty() {
            return Err(RegionError::Unnamed);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(RegionError::NameTooLong { len: name.len(), max: NAME_BYTES_MAX });
        }
        registry.register(name, place)
    }

    /// Forgets a region; one that is not known is forgotten already. Requests under way finish on it.
    ///
    /// # Errors
    /// [`RegionError::Disabled`].
    pub fn unregister(&self, name: &str) -> Result<(), RegionError> {
        self.enabled()?.change(|regions| drop(regions.remove(name)));
        Ok(())
    }

    /// Forgets every region.
    ///
    /// # Errors
    /// [`RegionError::Disabled`].
    pub fn unregister_all(&self) -> Result<(), RegionError> {
        self.enabled()?.change(RegionMap::clear);
        Ok(())
    }

    /// Every region by name.
    #[must_use]
    pub fn places(&self) -> Vec<(Arc<str>, RegionPlace)> {
        let Some(registry) = &self.registry else { return Vec::new() };
        registry.regions.load().iter().map(|(name, region)| (Arc::clone(name), region.place.clone())).collect()
    }

    /// Where the region `name` lies.
    ///
    /// # Errors
    /// [`RegionError::NotRegistered`].
    pub fn place(&self, name: &str) -> Result<RegionPlace, RegionError> {
        let found = self.registry.as_ref().and_then(|registry| registry.regions.load().get(name).cloned());
        found.map(|region| region.place.clone()).ok_or_else(|| RegionError::not_registered(name))
    }

    /// The part that `claim` names.
    ///
    /// # Errors
    /// A [`RegionError`] for a region that is not known, and a part that does not lie within it.
    pub fn part(&self, claim: &PartClaim) -> Result<RegionPart, RegionError> {
        let regions = self.enabled()?.regions.load();
        let region = regions.get(claim.region.as_str()).ok_or_else(|| RegionError::unknown(claim))?;
        RegionPart::of(region, claim)
    }

    /// What one request's inputs are read with.
    #[must_use]
    pub fn reader(&self) -> RegionReader<'_> {
        RegionReader { memory: self, taken: 0 }
    }

    /// Regions that are open now, and their bytes together.
    #[must_use]
    pub fn open_regions(&self) -> (u64, u64) {
        let open = self.registry.as_ref().map(|registry| &registry.open);
        open.map_or((0, 0), |open| (open.count.load(Ordering::Relaxed), open.bytes.load(Ordering::Relaxed)))
    }

    fn enabled(&self) -> Result<&Registry, RegionError> {
        self.registry.as_ref().ok_or(RegionError::Disabled)
    }
}

impl Registry {
    fn register(&self, name: &str, place: RegionPlace) -> Result<(), RegionError> {
        self.check_room(name, &place, &Taken::of(&self.open))?;
        let region = Arc::new(Region::open(name, place, &self.open)?);
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        // Others may have registered since.
        self.check_room(name, &region.place, &Taken::of(&self.open).without(&region))?;
        let mut regions = RegionMap::clone(&self.regions.load());
        regions.insert(name.into(), region);
        self.regions.store(Arc::new(regions));
        Ok(())
    }

    /// Whether there is room beside what is open: what is no longer registered but still in use counts, too.
    fn check_room(&self, name: &str, place: &RegionPlace, taken: &Taken) -> Result<(), RegionError> {
        let RegionLimits { regions_max, bytes_max, .. } = self.limits;
        if self.regions.load().contains_key(name) {
            return Err(RegionError::Exists(error::shown(name)));
        }
        if taken.count >= regions_max as u64 {
            return Err(RegionError::TooMany { max: regions_max });
        }
        if place.byte_size > bytes_max.saturating_sub(taken.bytes) {
            let (name, taken) = (error::shown(name), taken.bytes);
            return Err(RegionError::TooLarge { name, byte_size: place.byte_size, taken, max: bytes_max });
        }
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut RegionMap)) {
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let mut regions = RegionMap::clone(&self.regions.load());
        change(&mut regions);
        self.regions.store(Arc::new(regions));
    }
}

/// Reads one request's inputs out of regions, no more than a request may take.
#[derive(Debug)]
pub struct RegionReader<'a> {
    memory: &'a SharedMemory,
    taken: u64,
}

impl RegionReader<'_> {
    /// A copy of the part that `claim` names.
    ///
    /// # Errors
    /// As [`SharedMemory::part`] and [`RegionPart::read`]; [`RegionError::RequestTooLarge`] before anything is read.
    pub fn read(&mut self, claim: &PartClaim) -> Result<Bytes, RegionError> {
        let max = self.memory.enabled()?.limits.request_bytes_max;
        let part = self.memory.part(claim)?;
        if part.byte_size() > max - self.taken {
            return Err(RegionError::RequestTooLarge { max });
        }
        self.taken += part.byte_size();
        part.read()
    }
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
