//! Tests with a message that has fields of all types.

use super::*;

message! {
    /// A message inside another one.
    pub struct Part = "test.Part" {
        /// A name.
        1 => name: String,
        /// A number.
        2 => count: u32,
    }

    /// A message with a field of each type.
    pub struct Whole {
        /// uint32
        1 => small: u32,
        /// uint64
        2 => large: u64,
        /// int32
        3 => signed: i32,
        /// int64
        4 => long: i64,
        /// bool
        5 => flag: bool,
        /// double
        6 => real: f64,
        /// string
        7 => text: String,
        /// bytes
        8 => bytes: Vec<u8>,
        /// optional string
        9 => maybe: Option<String>,
        /// message
        10 => part: Option<Part>,
        /// repeated message
        11 => parts: Vec<Part>,
        /// repeated uint64
        12 => numbers: Vec<u64>,
        /// repeated double
        13 => reals: Vec<f64>,
        /// repeated string
        14 => texts: Vec<String>,
        /// map<string, string>
        200 => map: BTreeMap<String, String>,
    }
}

fn whole() -> Whole {
    Whole {
        small: u32::MAX,
        large: u64::MAX,
        signed: -1,
        long: i64::MIN,
        flag: true,
        real: -0.5,
        text: "ä".into(),
        bytes: vec![0, 255],
        maybe: Some(String::new()),
        part: Some(Part { name: "p".into(), count: 3 }),
        parts: vec![Part::default(), Part { name: "q".into(), count: 0 }],
        numbers: vec![0, 1, 300],
        reals: vec![0.0, 1.5],
        texts: vec![String::new(), "t".into()],
        map: [("k".into(), "v".into()), (String::new(), String::new())].into(),
    }
}

#[test]
fn all_types_round_trip() {
    let whole = whole();
    assert_eq!(Whole::decode(&whole.encode()), Ok(whole));
    let part = Part { name: "p".into(), count: 3 };
    assert_eq!(part.encode(), [0x0a, 1, b'p', 0x10, 3]);
    assert_eq!(Part::decode(&part.encode()), Ok(part));
}

#[test]
fn defaults_take_no_bytes() {
    assert_eq!(Whole::default().encode(), []);
    assert_eq!(Whole::decode(&[]), Ok(Whole::default()));
    // Negative zero differs from the default value.
    let negative = Whole { real: -0.0, ..Whole::default() };
    assert_eq!(negative.encode(), [0x31, 0, 0, 0, 0, 0, 0, 0, 0x80]);
    // An empty message is written if it is present.
    let empty = Whole { part: Some(Part::default()), ..Whole::default() };
    assert_eq!(empty.encode(), [0x52, 0]);
    assert_eq!(Whole::decode(&[0x52, 0]), Ok(empty));
}

#[test]
fn the_last_value_counts_and_messages_merge() {
    let first =
        Whole { small: 1, part: Some(Part { name: "a".into(), count: 1 }), ..Whole::default() };
    let second =
        Whole { small: 2, part: Some(Part { name: "b".into(), count: 0 }), ..Whole::default() };
    let both = Whole::decode(&[first.encode(), second.encode()].concat()).unwrap();
    assert_eq!(both.small, 2);
    assert_eq!(both.part, Some(Part { name: "b".into(), count: 1 }));
}

#[test]
fn lists_grow_and_of_a_key_the_last_value_counts() {
    let mut one = whole();
    let bytes = one.encode();
    let two = Whole::decode(&[&bytes[..], &bytes[..]].concat()).unwrap();
    assert_eq!(two.numbers, [0, 1, 300, 0, 1, 300]);
    assert_eq!(two.parts.len(), 4);
    assert_eq!(two.map, one.map);
    one.map.insert("k".into(), "w".into());
    let three = Whole::decode(&[bytes, one.encode()].concat()).unwrap();
    assert_eq!(three.map, one.map);
}

#[test]
fn numbers_are_packed_or_not() {
    assert_eq!(Whole::decode(&[0x60, 5, 0x62, 2, 6, 7, 0x60, 8]).unwrap().numbers, [5, 6, 7, 8]);
    assert_eq!(Whole::decode(&[0x62, 1, 0x80]), Err(Malformed::Short));
    assert_eq!(Whole::decode(&[0x6a, 1, 0]), Err(Malformed::Short));
}

#[test]
fn what_is_wider_than_its_type_is_cut() {
    let mut writer = Writer::default();
    writer.varint_field(1, 1 << 32 | 7);
    writer.varint_field(3, 1 << 32 | 0xffff_fffe);
    writer.varint_field(5, 1 << 32);
    let read = Whole::decode(&writer.into_bytes()).unwrap();
    assert_eq!((read.small, read.signed, read.flag), (7, -2, true));
}

#[test]
fn unknown_fields_and_other_kinds_are_skipped() {
    let mut writer = Writer::default();
    writer.varint_field(999, 1);
    writer.fixed64_field(1, 1);
    for number in [7, 8, 9, 10, 11, 14, 200] {
        writer.varint_field(number, 1);
    }
    writer.bytes_field(1, b"no number");
    writer.bytes_field(6, b"no number");
    assert_eq!(Whole::decode(&writer.into_bytes()), Ok(Whole::default()));
}

#[test]
fn strings_are_utf8() {
    for number in [7, 9, 14] {
        let mut writer = Writer::default();
        writer.bytes_field(number, &[0xff]);
        assert_eq!(Whole::decode(&writer.into_bytes()), Err(Malformed::Text), "{number}");
    }
    for key_or_value in [1, 2] {
        let mut writer = Writer::default();
        writer.delimited_field(200, |writer| writer.bytes_field(key_or_value, &[0xff]));
        assert_eq!(Whole::decode(&writer.into_bytes()), Err(Malformed::Text));
    }
}

#[test]
fn entries_of_maps_may_lack_key_and_value() {
    let read = Whole::decode(&[0xc2, 0x0c, 0]).unwrap();
    assert_eq!(read.map, [(String::new(), String::new())].into());
}

#[test]
fn lists_have_an_end() {
    let full = [0x5a, 0].repeat(MOST);
    assert_eq!(Whole::decode(&full).unwrap().parts.len(), MOST);
    assert_eq!(Whole::decode(&[&full[..], &[0x5a, 0]].concat()), Err(Malformed::Many));
    let packed = Whole { numbers: vec![1; MOST + 1], ..Whole::default() };
    assert_eq!(Whole::decode(&packed.encode()), Err(Malformed::Many));
}
