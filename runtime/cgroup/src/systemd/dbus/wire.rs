//! The wire format: values as bytes (D-Bus specification, "Marshaling").

use alloc::vec::Vec;

/// Writes values in little-endian order. Alignment is relative to the writer's first byte, so that byte must be at a
/// multiple of 8 in the message, as it is in headers and bodies.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub bytes: Vec<u8>,
}

impl Writer {
    /// Pads with zeros up to a multiple of `to` bytes.
    pub fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Writes a number, aligned to its size.
    pub fn number<const N: usize>(&mut self, bytes: [u8; N]) {
        self.align(N);
        self.bytes.extend_from_slice(&bytes);
    }

    pub fn u32(&mut self, value: u32) {
        self.number(value.to_le_bytes());
    }

    /// Writes the length of a value. No message has as many bytes as 32 bits can count.
    pub fn length(&mut self, length: usize) {
        self.u32(u32::try_from(length).unwrap_or(u32::MAX));
    }

    pub fn string(&mut self, text: &str) {
        self.length(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
        self.u8(0);
    }

    /// Writes a signature. The caller ensures that it has at most 255 bytes.
    pub fn signature(&mut self, text: &str) {
        self.u8(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.bytes.extend_from_slice(text.as_bytes());
        self.u8(0);
    }

    /// Writes an array whose elements are aligned to `to` bytes. The array's length does not include the padding before
    /// the first element.
    pub fn array(&mut self, to: usize, elements: impl FnOnce(&mut Self)) {
        self.u32(0);
        let length = self.bytes.len() - 4;
        self.align(to);
        let start = self.bytes.len();
        elements(self);
        let count = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        for (to, from) in self.bytes.iter_mut().skip(length).zip(count.to_le_bytes()) {
            *to = from;
        }
    }
}

/// Reads values. Its methods return `None` if the input is invalid or truncated.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    big_endian: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], big_endian: bool) -> Self {
        Self { bytes, at: 0, big_endian }
    }

    /// Returns the current offset from the start.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Skips the padding before a value that is aligned to `to` bytes.
    pub fn align(&mut self, to: usize) -> Option<()> {
        let padding = self.at.next_multiple_of(to) - self.at;
        self.take(padding)?.iter().all(|byte| *byte == 0).then_some(())
    }

    /// Returns the next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    /// Reads a byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// Reads a `u`.
    pub fn u32(&mut self) -> Option<u32> {
        self.align(4)?;
        let bytes = self.take(4)?.first_chunk().copied()?;
        Some(match self.big_endian {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        })
    }

    /// Reads an `s` or an `o`.
    pub fn string(&mut self) -> Option<&'a str> {
        let length = self.u32()?;
        self.text(length as usize)
    }

    /// Reads a `g`.
    pub fn signature(&mut self) -> Option<&'a str> {
        let length = self.u8()?;
        self.text(length.into())
    }

    /// Reads a string and its terminating zero.
    fn text(&mut self, length: usize) -> Option<&'a str> {
        let text = core::str::from_utf8(self.take(length)?).ok()?;
        (self.u8()? == 0 && !text.contains('\0')).then_some(text)
    }

    /// Skips a value of a basic type.
    pub fn skip(&mut self, kind: &str) -> Option<()> {
        match kind {
            "s" | "o" => self.string().map(drop),
            "g" => self.signature().map(drop),
            "y" => self.u8().map(drop),
            "n" | "q" => self.align(2).and_then(|()| self.take(2)).map(drop),
            "b" | "i" | "u" | "h" => self.u32().map(drop),
            "x" | "t" | "d" => self.align(8).and_then(|()| self.take(8)).map(drop),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn arrays_do_not_count_the_padding_before_them() {
        let mut writer = Writer::default();
        writer.u8(7);
        writer.array(8, |writer| writer.number(9_u64.to_le_bytes()));
        let golden = [7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(writer.bytes, golden);
        let mut writer = Writer::default();
        writer.array(8, |_| {});
        assert_eq!(writer.bytes, [0; 8]);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut writer = Writer::default();
        writer.string("käse");
        writer.signature("a(sv)");
        writer.u32(77);
        let mut reader = Reader::new(&writer.bytes, false);
        assert_eq!(reader.string(), Some("käse"));
        assert_eq!(reader.signature(), Some("a(sv)"));
        assert_eq!(reader.u32(), Some(77));
        assert_eq!((reader.at(), reader.u8()), (writer.bytes.len(), None));
    }

    #[test]
    fn other_byte_orders_are_read() {
        let mut reader = Reader::new(&[0, 0, 0, 1, b'x', 0], true);
        assert_eq!(reader.string(), Some("x"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..64),
            kinds in prop::collection::vec("[sogynqbiuhxtda]", 0..12),
            big_endian: bool,
        ) {
            let mut reader = Reader::new(&bytes, big_endian);
            for kind in &kinds {
                if reader.skip(kind).is_none() {
                    break;
                }
            }
            prop_assert!(reader.at() <= bytes.len());
        }
    }
}
