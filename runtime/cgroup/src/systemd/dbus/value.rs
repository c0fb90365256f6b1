//! Values with their D-Bus types.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::systemd::dbus::wire::Writer;

/// A value with its D-Bus type.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `y`
    Byte(u8),
    /// `b`
    Bool(bool),
    /// `n`
    Int16(i16),
    /// `q`
    Uint16(u16),
    /// `i`
    Int32(i32),
    /// `u`
    Uint32(u32),
    /// `x`
    Int64(i64),
    /// `t`
    Uint64(u64),
    /// `d`
    Double(f64),
    /// `s`
    String(String),
    /// `o`
    Path(String),
    /// `g`
    Signature(String),
    /// `ay`
    Bytes(Vec<u8>),
    /// `a`; the string is the signature of an element.
    Array(String, Vec<Self>),
    /// `(…)`
    Struct(Vec<Self>),
    /// `{…}`, an element of a dictionary.
    Entry(Box<(Self, Self)>),
    /// `v`
    Variant(Box<Self>),
}

impl Value {
    /// Returns a string value.
    pub fn text(text: impl ToString) -> Self {
        Self::String(text.to_string())
    }

    /// Returns the signature of the value's type.
    pub fn signature(&self) -> String {
        let mut signature = String::new();
        self.add_signature(&mut signature);
        signature
    }

    /// Appends the signature of the value's type.
    pub(crate) fn add_signature(&self, to: &mut String) {
        let rest = match self {
            Self::Byte(_) => "y",
            Self::Bool(_) => "b",
            Self::Int16(_) => "n",
            Self::Uint16(_) => "q",
            Self::Int32(_) => "i",
            Self::Uint32(_) => "u",
            Self::Int64(_) => "x",
            Self::Uint64(_) => "t",
            Self::Double(_) => "d",
            Self::String(_) => "s",
            Self::Path(_) => "o",
            Self::Signature(_) => "g",
            Self::Bytes(_) => "ay",
            Self::Variant(_) => "v",
            Self::Array(element, _) => {
                to.push('a');
                element
            }
            Self::Struct(members) => {
                to.push('(');
                members.iter().for_each(|member| member.add_signature(to));
                ")"
            }
            Self::Entry(entry) => {
                to.push('{');
                entry.0.add_signature(to);
                entry.1.add_signature(to);
                "}"
            }
        };
        to.push_str(rest);
    }

    /// Appends the value in wire format.
    pub(crate) fn write(&self, to: &mut Writer) {
        match self {
            Self::Byte(value) => to.u8(*value),
            Self::Bool(value) => to.u32((*value).into()),
            Self::Int16(value) => to.number(value.to_le_bytes()),
            Self::Uint16(value) => to.number(value.to_le_bytes()),
            Self::Int32(value) => to.number(value.to_le_bytes()),
            Self::Uint32(value) => to.u32(*value),
            Self::Int64(value) => to.number(value.to_le_bytes()),
            Self::Uint64(value) => to.number(value.to_le_bytes()),
            Self::Double(value) => to.number(value.to_le_bytes()),
            Self::String(text) | Self::Path(text) => to.string(text),
            Self::Signature(text) => to.signature(text),
            Self::Bytes(bytes) => to.array(1, |to| to.bytes.extend_from_slice(bytes)),
            Self::Array(element, values) => {
                to.array(alignment(element), |to| values.iter().for_each(|value| value.write(to)));
            }
            Self::Struct(members) => {
                to.align(8);
                members.iter().for_each(|member| member.write(to));
            }
            Self::Entry(entry) => {
                to.align(8);
                entry.0.write(to);
                entry.1.write(to);
            }
            Self::Variant(value) => {
                to.signature(&value.signature());
                value.write(to);
            }
        }
    }
}

/// Returns the alignment of the type with this signature.
fn alignment(signature: &str) -> usize {
    match signature.bytes().next() {
        Some(b'y' | b'g' | b'v') => 1,
        Some(b'n' | b'q') => 2,
        Some(b'x' | b't' | b'd' | b'(' | b'{') => 8,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(value: &Value) -> Vec<u8> {
        let mut writer = Writer::default();
        value.write(&mut writer);
        writer.bytes
    }

    #[test]
    fn properties_are_marshalled_as_specified() {
        let pair = |name: &str, value| {
            Value::Struct(vec![Value::text(name), Value::Variant(Box::new(value))])
        };
        let pids = Value::Array("u".into(), vec![Value::Uint32(258)]);
        let list =
            Value::Array("(sv)".into(), vec![pair("Ab", Value::Bool(true)), pair("C", pids)]);
        assert_eq!(list.signature(), "a(sv)");
        #[rustfmt::skip]
        let golden = [
            36, 0, 0, 0, 0, 0, 0, 0,
            2, 0, 0, 0, b'A', b'b', 0, 1, b'b', 0, 0, 0, 1, 0, 0, 0,
            1, 0, 0, 0, b'C', 0, 2, b'a', b'u', 0, 0, 0, 4, 0, 0, 0, 2, 1, 0, 0,
        ];
        // The second pair is aligned to 8 bytes. The array's length does not include the padding before the first pair.
        assert_eq!(bytes(&list), golden);
    }

    #[test]
    fn empty_arrays_of_structs_are_padded() {
        assert_eq!(bytes(&Value::Array("(ss)".into(), vec![])), [0; 8]);
        assert_eq!(bytes(&Value::Bytes(vec![])), [0; 4]);
        let aux = Value::Array("(sa(sv))".into(), vec![]);
        assert_eq!(aux.signature(), "a(sa(sv))");
    }

    #[test]
    fn numbers_are_aligned_to_their_size() {
        let value = Value::Struct(vec![Value::Byte(1), Value::Uint64(2), Value::Int16(-1)]);
        assert_eq!(value.signature(), "(ytn)");
        let golden = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 255, 255];
        assert_eq!(bytes(&value), golden);
    }
}
