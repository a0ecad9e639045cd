// SPDX-License-Identifier: GPL-3.0-or-later
//! Program files are untrusted: whatever is in one, reading it ends with a result.

use proptest::prelude::*;
use runtime::image::{ImageError, ImageHeaders, exports, learn_services};

/// A small image with one section that holds an export directory and one stub.
fn image() -> Vec<u8> {
    let mut file = vec![0u8; 0x600];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"MZ");
    put(0x3c, &0x80u32.to_le_bytes());
    put(0x80, b"PE\0\0");
    put(0x84, &0x8664u16.to_le_bytes());
    put(0x86, &1u16.to_le_bytes()); // sections
    put(0x94, &240u16.to_le_bytes()); // optional header
    let optional = 0x98;
    put(optional, &0x20bu16.to_le_bytes());
    put(optional + 24, &0x1_8000_0000u64.to_le_bytes()); // base
    put(optional + 56, &0x3000u32.to_le_bytes()); // image size
    put(optional + 60, &0x200u32.to_le_bytes()); // headers size
    put(optional + 108, &16u32.to_le_bytes());
    put(
        optional + 112,
        &[0x1000u32.to_le_bytes(), 0x100u32.to_le_bytes()].concat(),
    ); // exports
    let section = optional + 240;
    put(section, b".text\0\0\0");
    put(
        section + 8,
        &[0x400u32, 0x1000, 0x400, 0x200].map(u32::to_le_bytes).concat(),
    );
    let raw = |rva: usize| rva - 0x1000 + 0x200;
    // One function, one name: counts, then the tables' addresses.
    put(
        raw(0x1014),
        &[1u32, 1, 0x1040, 0x1050, 0x1060].map(u32::to_le_bytes).concat(),
    );
    put(raw(0x1040), &0x1200u32.to_le_bytes());
    put(raw(0x1050), &0x1070u32.to_le_bytes());
    put(raw(0x1070), b"ZwTest\0");
    put(
        raw(0x1200),
        &[
            0x4c, 0x8b, 0xd1, 0xb8, 0x23, 0x01, 0, 0, 0xf6, 0x04, 0x25, 0x08, 0x03, 0xfe, 0x7f, 0x01, 0x75, 3, 0x0f, 5,
            0xc3, 0xcd, 0x2e, 0xc3,
        ],
    );
    file
}

/// Everything that is read from a file before it is mapped.
fn read(file: &Vec<u8>) -> Result<Vec<(String, u32)>, ImageError> {
    let headers = ImageHeaders::parse(file)?;
    headers.imports_anything(file)?;
    let exports = exports(file, &headers)?;
    let services = learn_services(file, &headers, &exports)?;
    Ok(services
        .into_iter()
        .map(|service| (service.name, service.number))
        .collect())
}

#[test]
fn a_service_number_is_learned_from_its_stub() {
    assert_eq!(read(&image()).expect("a good image"), [("NtTest".to_owned(), 0x123)]);
}

#[test]
fn each_kind_of_damage_is_named_with_its_place() {
    let damaged = |at: usize, bytes: &[u8]| {
        let mut file = image();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        read(&file).expect_err("damaged").to_string()
    };
    assert!(damaged(0, b"XX").contains("no MZ mark at offset 0"));
    assert!(damaged(0x3c, &0xffff_fff0u32.to_le_bytes()).contains("no PE mark at offset 0xfffffff0"));
    assert!(damaged(0x84, &0x14cu16.to_le_bytes()).contains("machine 0x014c"));
    assert!(damaged(0x98 + 56, &0xffff_ffffu32.to_le_bytes()).contains("SizeOfImage is 0xffffffff at offset 0xd0"));
    assert!(damaged(0x86, &97u16.to_le_bytes()).contains("NumberOfSections is 0x61"));
    assert!(damaged(0x188 + 12, &0x1001u32.to_le_bytes()).contains("VirtualAddress is 0x1001"));
    assert!(damaged(0x188 + 8, &0x9000u32.to_le_bytes()).contains("VirtualSize is 0x9000"));
    assert!(damaged(0x218, &0xffff_ffffu32.to_le_bytes()).contains("number of exports is 0xffffffff"));
    let short = image()[..0x90].to_vec();
    assert!(
        read(&short)
            .expect_err("short")
            .to_string()
            .contains("behind the end of the file")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_damage_makes_reading_fail_otherwise(changes in prop::collection::vec((0usize..0x600, any::<u8>()), 1..12), cut in 0usize..0x600) {
        let mut file = image();
        for (at, byte) in changes {
            file[at] = byte;
        }
        let _ = read(&file);
        file.truncate(cut);
        let _ = read(&file);
    }

    #[test]
    fn no_damage_of_the_headers_numbers_makes_reading_fail_otherwise(field in 0usize..0x90, value in prop_oneof![Just(u32::MAX), Just(0x8000_0000), Just(0), any::<u32>()]) {
        let mut file = image();
        for at in [0x80 + field * 4, 0x200 + field * 4] {
            if let Some(bytes) = file.get_mut(at..at + 4) {
                bytes.copy_from_slice(&value.to_le_bytes());
                let _ = read(&file);
            }
        }
    }
}
