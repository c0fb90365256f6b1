//! The wire format of protobuf: fields, each with a number and a value of one of four wire types
//! (protobuf.dev/programming-guides/encoding).

use alloc::vec::Vec;

/// The maximum nesting depth, which is more than our messages need.
const DEEPEST: u8 = 16;
/// The highest valid field number.
const GREATEST_NUMBER: u32 = (1 << 29) - 1;
/// The maximum number of bytes of a varint with 64 bits.
const LONGEST_VARINT: usize = 10;

/// The reason why bytes are not a valid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end within a field.
    #[error("the message ends within a field")]
    Short,
    /// A number has more than 64 bits.
    #[error("a number has more than 64 bits")]
    Long,
    /// A field has an invalid number.
    #[error("a field has an impossible number")]
    Number,
    /// A field has an unknown wire type, or is a group, which proto3 does not support.
    #[error("a field is of an unknown kind")]
    Kind,
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    Text,
    /// Messages are nested too deeply.
    #[error("messages are nested too deep")]
    Deep,
    /// A field is repeated more than [`MOST`](crate::message::MOST) times.
    #[error("a field is repeated too often")]
    Many,
}

/// The value of a field on the wire. The message definition determines how it is interpreted.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// An integer, a bool or an enum.
    Varint(u64),
    /// A double, or an integer of 8 bytes.
    Fixed64(u64),
    /// A string, bytes, a message, or a packed list.
    Delimited(Reader<'a>),
    /// A float, or an integer of 4 bytes.
    Fixed32(u32),
}

/// Reads the fields of a message.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    depth: u8,
}

impl<'a> Reader<'a> {
    /// Returns a reader for a top-level message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, depth: 0 }
    }

    /// Returns the unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Reads the next field: its number and its value. Returns `None` at the end.
    ///
    /// # Errors
    /// If the bytes are not a valid field, or messages are nested too deeply.
    pub fn field(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.depth > DEEPEST {
            return Err(Malformed::Deep);
        }
        if self.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok();
        let number = number.filter(|number| (1..=GREATEST_NUMBER).contains(number));
        let number = number.ok_or(Malformed::Number)?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(self.fixed64()?),
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| Malformed::Short)?;
                Value::Delimited(Reader { bytes: self.take(length)?, depth: self.depth + 1 })
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(Malformed::Kind),
        };
        Ok(Some((number, value)))
    }

    /// Reads a varint, which has up to ten bytes.
    ///
    /// # Errors
    /// If the bytes end within the number, or the number does not fit in 64 bits.
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for at in 0..LONGEST_VARINT {
            let [byte] = self.array()?;
            // The tenth byte may only contain the highest bit of the number.
            if at == LONGEST_VARINT - 1 && byte > 1 {
                return Err(Malformed::Long);
            }
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed::Long)
    }

    /// Reads a number of eight bytes.
    ///
    /// # Errors
    /// If fewer than eight bytes are left.
    pub fn fixed64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.bytes.split_first_chunk().ok_or(Malformed::Short)?;
        self.bytes = rest;
        Ok(*first)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(Malformed::Short)?;
        self.bytes = rest;
        Ok(taken)
    }
}

/// Writes the fields of a message.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

/// Returns the lower half of a word.
pub(crate) fn low(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

impl Writer {
    /// Returns the written bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes a varint without a tag, as in packed lists.
    pub fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.bytes.push(number.to_le_bytes()[0]);
    }

    /// Writes a number of eight bytes without a tag, as in packed lists.
    pub fn fixed64(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes the tag that precedes a value: the field's number and the value's wire type.
    fn tag(&mut self, number: u32, kind: u64) {
        self.varint(u64::from(number) << 3 | kind);
    }

    /// Writes an integer, bool or enum field.
    pub fn varint_field(&mut self, number: u32, value: u64) {
        self.tag(number, 0);
        self.varint(value);
    }

    /// Writes a double field, given the bits of the number.
    pub fn fixed64_field(&mut self, number: u32, value: u64) {
        self.tag(number, 1);
        self.fixed64(value);
    }

    /// Writes a string or bytes field.
    pub fn bytes_field(&mut self, number: u32, value: &[u8]) {
        self.tag(number, 2);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// Writes a field whose contents are written by `write`: a message, or a packed list.
    pub fn delimited_field(&mut self, number: u32, write: impl FnOnce(&mut Self)) {
        self.tag(number, 2);
        let start = self.bytes.len();
        write(self);
        // The length precedes the contents, but is known only now.
        let end = self.bytes.len();
        self.varint((end - start) as u64);
        let length = self.bytes.len() - end;
        if let Some(written) = self.bytes.get_mut(start..) {
            written.rotate_right(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(bytes: &[u8]) -> Result<u64, Malformed> {
        Reader::new(bytes).varint()
    }

    fn field(bytes: &[u8]) -> Result<Option<(u32, Value<'_>)>, Malformed> {
        Reader::new(bytes).field()
    }

    #[test]
    fn numbers_round_trip() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
            let mut writer = Writer::default();
            writer.varint(number);
            assert_eq!(varint(&writer.into_bytes()), Ok(number));
        }
        // The example from the specification.
        assert_eq!(varint(&[0x96, 0x01]), Ok(150));
        // An encoding may be longer than necessary.
        assert_eq!(varint(&[0x81, 0x80, 0x00]), Ok(1));
    }

    #[test]
    fn numbers_that_are_none() {
        assert_eq!(varint(&[]), Err(Malformed::Short));
        assert_eq!(varint(&[0x80; 9]), Err(Malformed::Short));
        assert_eq!(varint(&[0xff; 10]), Err(Malformed::Long));
        let mut bytes = [0xff; 10];
        bytes[9] = 2;
        assert_eq!(varint(&bytes), Err(Malformed::Long));
    }

    #[test]
    fn fields() {
        assert!(matches!(field(&[0x08, 0x05]), Ok(Some((1, Value::Varint(5))))));
        assert!(matches!(field(&[0x11, 1, 0, 0, 0, 0, 0, 0, 0]), Ok(Some((2, Value::Fixed64(1))))));
        assert!(matches!(field(&[0x15, 1, 0, 0, 0]), Ok(Some((2, Value::Fixed32(1))))));
        let Ok(Some((2, Value::Delimited(inner)))) = field(&[0x12, 2, b'h', b'i', 0x08]) else {
            panic!("no field");
        };
        assert_eq!(inner.rest(), b"hi");
        assert!(matches!(field(&[]), Ok(None)));
    }

    #[test]
    fn fields_that_are_none() {
        for (bytes, why) in [
            (&[0x00, 0x00][..], Malformed::Number),
            (&[0x80, 0x80, 0x80, 0x80, 0x10, 0x00], Malformed::Number),
            // The start of a group, the end of a group, and two invalid wire types.
            (&[0x0b], Malformed::Kind),
            (&[0x0c], Malformed::Kind),
            (&[0x0e], Malformed::Kind),
            (&[0x0f], Malformed::Kind),
            (&[0x08], Malformed::Short),
            (&[0x09, 1, 2, 3], Malformed::Short),
            (&[0x0d, 1, 2, 3], Malformed::Short),
            (&[0x0a, 2, 1], Malformed::Short),
            (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Malformed::Short),
        ] {
            assert_eq!(field(bytes).map(drop), Err(why), "{bytes:x?}");
        }
    }

    #[test]
    fn messages_end_to_be_read_when_too_deep() {
        let mut bytes = Vec::new();
        for _ in 0..=DEEPEST {
            let mut writer = Writer::default();
            writer.bytes_field(1, &bytes);
            bytes = writer.into_bytes();
        }
        let mut reader = Reader::new(&bytes);
        for _ in 0..=DEEPEST {
            let Ok(Some((1, Value::Delimited(inner)))) = reader.field() else {
                panic!("{reader:?}")
            };
            reader = inner;
        }
        assert_eq!(reader.field().map(drop), Err(Malformed::Deep));
    }

    #[test]
    fn lengths_stand_before_what_they_measure() {
        for length in [0, 1, 127, 128, 20_000] {
            let (mut one, mut other) = (Writer::default(), Writer::default());
            let content = vec![7; length];
            one.bytes_field(3, &content);
            other.delimited_field(3, |writer| {
                content.iter().for_each(|byte| writer.varint(u64::from(*byte)))
            });
            assert_eq!(one.into_bytes(), other.into_bytes());
        }
    }
}
