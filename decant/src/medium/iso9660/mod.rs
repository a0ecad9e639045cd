// SPDX-License-Identifier: GPL-3.0-or-later
//! ISO 9660.

use super::host_file::HostFile;
use super::{Entry, Extent, FileSystem, MediumError, MediumKind, ReadAt};
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(super) struct IsoLocation;

#[derive(Debug)]
pub(super) struct Volume;
impl Volume {
    pub(super) fn open(_disc: &Arc<HostFile>) -> Result<Option<Self>, MediumError> {
        Ok(None)
    }
    pub(super) fn kind(&self, _udf_too: bool) -> MediumKind {
        MediumKind::Directory
    }
    pub(super) fn label(&self) -> Option<String> {
        None
    }
}
impl FileSystem for Volume {
    fn root(&self) -> Entry {
        unreachable!()
    }
    fn children(&self, _directory: &Entry) -> Result<Vec<Entry>, MediumError> {
        Ok(Vec::new())
    }
    fn find(&self, _directory: &Entry, _name: &str) -> Result<Option<Entry>, MediumError> {
        Ok(None)
    }
    fn open(&self, _file: &Entry) -> Result<Arc<dyn ReadAt>, MediumError> {
        Ok(Arc::new(Vec::new()))
    }
    fn extents(&self, _file: &Entry) -> Result<Option<Vec<Extent>>, MediumError> {
        Ok(None)
    }
    fn identity(&self, _directory: &Entry) -> Option<(u64, u64)> {
        None
    }
}
pub(super) fn is_present(_disc: &Arc<HostFile>) -> Result<bool, MediumError> {
    Ok(false)
}
