// SPDX-License-Identifier: GPL-3.0-or-later
//! Every WIM of the corpus gives what its MANIFEST row says.

mod wim_support;

use vodka_decant::wim::{BlobReader, WimError};
use wim_support::{chain, corpus, open};

#[test]
fn a_damaged_file_is_named_by_its_hash_and_the_rest_can_be_read() {
    let Some(path) = corpus("wim/corrupted_file_1.wim") else {
        return;
    };
    let wim = open(&path);
    assert!(!wim.info().expect("the XML").images.is_empty());
    let metadata = wim.metadata(1).expect("the metadata are whole");
    let mut damaged = Vec::new();
    for id in metadata.walk() {
        for sha1 in metadata.get(id).blobs() {
            let blob = wim.find_blob(&sha1).expect("the blob is listed");
            if let Err(error) = BlobReader::new(&wim).read(blob, &mut |_| Ok(())) {
                assert!(error.is_damage(), "{error}");
                let WimError::WrongHash { expected, .. } = error else {
                    panic!("{}", chain(&error))
                };
                assert_eq!(expected, sha1);
                damaged.push(metadata.path(id));
            }
        }
    }
    assert_eq!(damaged.len(), 1, "{damaged:?}");
}

#[test]
fn a_cycle_is_refused_and_named() {
    let Some(path) = corpus("wim/cyclic.wim") else { return };
    let error = open(&path).metadata(1).expect_err("a cycle");
    assert!(
        matches!(&error, WimError::Cycle { path, offset, .. } if !path.is_empty() && *offset > 0),
        "{error}"
    );
}

#[test]
fn a_name_that_climbs_is_refused_and_named() {
    let Some(path) = corpus("wim/dotdot.wim") else { return };
    let error = open(&path).metadata(1).expect_err("`..`");
    assert!(
        matches!(&error, WimError::InvalidName { path, .. } if path.contains("..")),
        "{error}"
    );
}

#[test]
fn a_name_that_is_there_twice_is_refused_and_named() {
    let Some(path) = corpus("wim/duplicate_names.wim") else {
        return;
    };
    let error = open(&path).metadata(1).expect_err("a duplicate");
    assert!(
        matches!(&error, WimError::DuplicateName { path, .. } if path.len() > 1),
        "{error}"
    );
}

/// [MS-DTYP] 2.4.6: the offset of the DACL is 0 for none ("null DACL": all access), else that of an ACL, which may hold
/// no entry ("empty DACL": no access). The descriptors come out raw, so both stay what they are.
#[test]
fn an_empty_dacl_is_not_a_missing_dacl() {
    let Some(path) = corpus("wim/empty_dacl.wim") else {
        return;
    };
    let metadata = open(&path).metadata(1).expect("valid");
    let mut with_empty_dacl = 0;
    for descriptor in metadata.security_descriptors() {
        let header: &[u8; 20] = descriptor.first_chunk().expect("a descriptor's header");
        let dacl_offset = u32::from_le_bytes([header[16], header[17], header[18], header[19]]) as usize;
        if dacl_offset != 0 {
            let ace_count = u16::from_le_bytes([descriptor[dacl_offset + 4], descriptor[dacl_offset + 5]]);
            with_empty_dacl += usize::from(ace_count == 0);
        }
    }
    assert!(with_empty_dacl > 0);
    let users = metadata.ids().filter_map(|id| metadata.get(id).security_id).count();
    assert!(users > 0, "a file has a descriptor");
}
