//! Parts of regions: where one request's inputs come from, and where its outputs go.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use model::Tensor;

use super::error::{RegionError, shown};
use super::{PartClaim, Region};

/// A part that lies within its region. Holding it keeps the region open.
#[derive(Clone, Debug)]
pub struct RegionPart {
    region: Arc<Region>,
    name: String,
    /// Its start in the object.
    start: u64,
    byte_size: u64,
}

impl PartialEq for RegionPart {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.region, &other.region) && (self.start, self.byte_size) == (other.start, other.byte_size)
    }
}

impl Eq for RegionPart {}

impl RegionPart {
    /// The part of `region` that `claim` names. The checks are Triton's, in its order.
    pub(super) fn of(region: &Arc<Region>, claim: &PartClaim) -> Result<Self, RegionError> {
        let PartClaim { region: name, offset, byte_size: part } = claim;
        let (name, offset, part, byte_size) = (shown(name), *offset, *part, region.place.byte_size);
        if offset >= byte_size {
            return Err(RegionError::Offset { name, offset, byte_size });
        }
        match offset.checked_add(part) {
            None => Err(RegionError::Overflow { name, offset, byte_size: part }),
            Some(end) if end > byte_size => Err(RegionError::End { name, offset, part, byte_size }),
            // The region's end is that of a file at most, so its parts start at numbers that there are.
            Some(_) => {
                let start = region.place.offset + offset;
                Ok(Self { region: Arc::clone(region), name, start, byte_size: part })
            }
        }
    }

    /// Its length.
    #[must_use]
    pub fn byte_size(&self) -> u64 {
        self.byte_size
    }

    /// A copy of it as it is now.
    ///
    /// # Errors
    /// [`RegionError::Truncated`] where the object has become too short, [`RegionError::Failed`] where the system refuses.
    pub fn read(&self) -> Result<Bytes, RegionError> {
        let len = usize::try_from(self.byte_size).map_err(|error| self.failed(&io::Error::other(error)))?;
        let mut bytes = vec![0; len];
        self.region.object.read(&mut bytes, self.start).map_err(|error| self.failed(&error))?;
        Ok(bytes.into())
    }

    /// Whether the object still reaches to the end of `len` bytes of the part.
    fn check_reaches(&self, len: usize) -> Result<(), RegionError> {
        let object_len = self.region.object.len().map_err(|error| self.failed(&error))?;
        if object_len < self.start + len as u64 { Err(self.truncated()) } else { Ok(()) }
    }

    fn write(&self, bytes: &[u8]) -> Result<(), RegionError> {
        self.region.object.write(bytes, self.start).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> RegionError {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return self.truncated();
        }
        let (name, key) = (self.name.clone(), shown(&self.region.place.key));
        RegionError::Failed { name, key, reason: error.to_string() }
    }

    fn truncated(&self) -> RegionError {
        RegionError::Truncated { name: self.name.clone(), key: shown(&self.region.place.key) }
    }
}

/// One request's outputs on their way into regions. Nothing is written before every other part of the answer is ready.
#[derive(Debug, Default)]
pub struct RegionWrites {
    list: Vec<(RegionPart, Bytes)>,
}

impl RegionWrites {
    /// Adds `output`, which goes into `part`.
    ///
    /// # Errors
    /// [`RegionError::OutputTooLarge`].
    pub fn add(&mut self, part: RegionPart, output: &Tensor) -> Result<(), RegionError> {
        let needed = output.data().len() as u64;
        if needed > part.byte_size {
            let output = shown(output.name());
            return Err(RegionError::OutputTooLarge { output, part: part.byte_size, needed });
        }
        self.list.push((part, output.data().clone()));
        Ok(())
    }

    /// Writes every output, once all of their objects are seen to hold them. An object that is cut short just then grows
    /// again, to the end of what is written: no more than the client had when it registered it.
    ///
    /// # Errors
    /// [`RegionError::Truncated`] where an object has become too short: nothing is written then. [`RegionError::Failed`]
    /// where the system refuses, such as for want of memory; outputs before that one are written.
    pub fn write(self) -> Result<(), RegionError> {
        let list = || self.list.iter().filter(|(_, bytes)| !bytes.is_empty());
        list().try_for_each(|(part, bytes)| part.check_reaches(bytes.len()))?;
        list().try_for_each(|(part, bytes)| part.write(bytes))
    }
}
