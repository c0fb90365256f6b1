//! A text buffer that does not use core::fmt. A trace of a start consists of thousands of short pieces, and core::fmt
//! takes several times as long for each piece, because it writes through `dyn`.

use core::fmt;

use alloc::string::String;
use alloc::vec::Vec;

/// The maximum width of a column of numbers. The largest number fits, even with a decimal point.
const CELL: usize = 24;

/// A growing text.
pub struct Buffer {
    /// UTF-8.
    bytes: Vec<u8>,
}

impl Buffer {
    /// Returns an empty buffer with this capacity.
    pub fn with_room(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// Returns the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the text.
    pub fn into_string(self) -> String {
        // Only valid UTF-8 is ever appended.
        String::from_utf8(self.bytes).unwrap_or_default()
    }

    /// Returns the buffer's length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a text unchanged.
    pub fn text(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Appends another buffer.
    pub fn append(&mut self, other: &Self) {
        self.bytes.extend_from_slice(&other.bytes);
    }

    /// Pads with spaces until there are `width` characters from the byte offset `start` on.
    pub fn fill(&mut self, start: usize, width: usize) {
        let bytes = self.bytes.get(start..).unwrap_or_default();
        // Counts the bytes that are not UTF-8 continuation bytes.
        let chars = bytes.iter().filter(|byte| *byte & 0xc0 != 0x80).count();
        self.bytes.resize(self.bytes.len() + width.saturating_sub(chars), b' ');
    }

    /// Appends a left-aligned text.
    pub fn left(&mut self, text: &str, width: usize) {
        let start = self.len();
        self.text(text);
        self.fill(start, width);
    }

    /// Appends a number.
    pub fn number(&mut self, number: u64) {
        self.right(number, 0);
    }

    /// Appends a signed number.
    pub fn signed(&mut self, number: i32) {
        if number < 0 {
            self.text("-");
        }
        self.number(number.unsigned_abs().into());
    }

    /// Appends a right-aligned number; the column is at most [`CELL`] wide.
    pub fn right(&mut self, number: u64, width: usize) {
        self.cell(number, None, width);
    }

    /// Appends a number given in tenths, such as 123 as `12.3`, right-aligned like the numbers of [`Self::right`].
    pub fn tenths(&mut self, tenths: u64, width: usize) {
        self.cell(tenths / 10, Some(tenths % 10), width);
    }

    fn cell(&mut self, mut number: u64, tenth: Option<u64>, width: usize) {
        let mut cell = [b' '; CELL];
        let mut from = CELL;
        let mut put = |byte| {
            from -= 1;
            if let Some(place) = cell.get_mut(from) {
                *place = byte;
            }
        };
        let digit = |number: u64| b'0' + (number % 10) as u8;
        if let Some(tenth) = tenth {
            put(digit(tenth));
            put(b'.');
        }
        loop {
            put(digit(number));
            number /= 10;
            if number == 0 {
                break;
            }
        }
        let from = from.min(CELL.saturating_sub(width));
        self.bytes.extend_from_slice(cell.get(from..).unwrap_or_default());
    }

    /// Appends a name for a terminal, with control characters escaped.
    pub fn plain(&mut self, text: &str) {
        // In UTF-8, the control characters U+0080 to U+009F start with the byte 0xc2, and some other characters do too.
        let may_be_control = |byte: &u8| matches!(byte, 0..0x20 | 0x7f | 0xc2);
        if !text.as_bytes().iter().any(may_be_control) {
            return self.text(text);
        }
        for found in text.chars() {
            match found.is_control() {
                true => found.escape_default().for_each(|escaped| self.char(escaped)),
                false => self.char(found),
            }
        }
    }

    fn char(&mut self, char: char) {
        self.text(char.encode_utf8(&mut [0; 4]));
    }

    /// Appends a quoted JSON string.
    pub fn json(&mut self, text: &str) {
        self.text("\"");
        if text.as_bytes().iter().any(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
            text.chars().for_each(|char| self.json_char(char));
        } else {
            self.text(text);
        }
        self.text("\"");
    }

    fn json_char(&mut self, char: char) {
        match char {
            '"' => self.text("\\\""),
            '\\' => self.text("\\\\"),
            '\n' => self.text("\\n"),
            '\r' => self.text("\\r"),
            '\t' => self.text("\\t"),
            '\u{8}' => self.text("\\b"),
            '\u{c}' => self.text("\\f"),
            '\0'..' ' => {
                self.text(if char < '\u{10}' { "\\u000" } else { "\\u001" });
                self.text(
                    char::from_digit(char as u32 % 16, 16).unwrap_or('0').encode_utf8(&mut [0; 4]),
                );
            }
            char => self.char(char),
        }
    }
}

impl fmt::Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(write: impl FnOnce(&mut Buffer)) -> String {
        let mut buffer = Buffer::with_room(0);
        write(&mut buffer);
        String::from_utf8(buffer.into_bytes()).unwrap()
    }

    fn number() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0u32..64).prop_map(|(number, shift)| number >> shift)
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_core(number in number(), sign in any::<i32>(), width in 0usize..=CELL) {
            prop_assert_eq!(written(|b| b.number(number)), number.to_string());
            prop_assert_eq!(written(|b| b.signed(sign)), sign.to_string());
            prop_assert_eq!(written(|b| b.right(number, width)), format!("{number:>width$}"));
            let tenths = format!("{}.{}", number / 10, number % 10);
            prop_assert_eq!(written(|b| b.tenths(number, width)), format!("{tenths:>width$}"));
        }

        #[test]
        fn columns_are_those_of_core(text in "\\PC{0,30}", width in 0usize..40) {
            prop_assert_eq!(written(|b| b.left(&text, width)), format!("{text:width$}"));
        }

        #[test]
        fn names_are_plain(text in any::<String>()) {
            let spelled = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
            let expected: String = text.chars().map(spelled).collect();
            prop_assert_eq!(written(|b| b.plain(&text)), expected);
        }

        #[test]
        fn strings_are_those_of_serde(text in any::<String>()) {
            prop_assert_eq!(written(|b| b.json(&text)), serde_json::to_string(&text).unwrap());
        }
    }

    #[test]
    fn every_character_of_ascii_and_beyond_is_written_as_it_should_be() {
        for char in '\0'..='\u{ff}' {
            let text = format!("a{char}b");
            assert_eq!(written(|b| b.json(&text)), serde_json::to_string(&text).unwrap());
            let plain =
                if char.is_control() { char.escape_default().to_string() } else { char.into() };
            assert_eq!(written(|b| b.plain(&text)), format!("a{plain}b"));
        }
        assert_eq!(written(|b| b.number(u64::MAX)), u64::MAX.to_string());
        assert_eq!(written(|b| b.signed(i32::MIN)), i32::MIN.to_string());
    }
}
