//! Messages as structs: `message!` defines such a struct from a list of fields, whose types implement [`Field`].

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::wire::{Malformed, Reader, Value, Writer, low};

/// The maximum number of elements in a list or map. The limit is needed because an empty message takes two bytes on the
/// wire, but a hundred in memory.
pub const MOST: usize = 1 << 16;

/// The methods that `message!` implements for each struct.
pub trait Message: Default {
    /// Merges the fields in `reader` into the message. If a field with a single value is repeated, the last value wins;
    /// nested messages are merged, and lists are extended. Fields with an unknown number or an unexpected wire type are
    /// skipped.
    ///
    /// # Errors
    /// If the bytes are not a valid message. Fields that were read before the error keep their new values.
    fn merge(&mut self, reader: Reader<'_>) -> Result<(), Malformed>;

    /// Writes all fields with values other than the default, in the order of declaration.
    fn write(&self, writer: &mut Writer);

    /// Returns the field of this name, if it is a `u64`.
    fn counter(&mut self, name: &str) -> Option<&mut u64>;
}

/// A message that can be sent in an [`Any`](crate::messages::any::Any), together with its type.
pub trait Packed: Message {
    /// The `type_url` of the Any: the message's full name, without `type.googleapis.com/`, as containerd writes it.
    const TYPE_URL: &'static str;
}

/// A type that a message's fields can have.
pub trait Field {
    /// Merges a value from the wire. A value with an unexpected wire type is skipped.
    ///
    /// # Errors
    /// If the value is not valid for the type.
    fn read(&mut self, value: Value<'_>) -> Result<(), Malformed>;

    /// Writes the field, unless it has the default value.
    fn write(&self, number: u32, writer: &mut Writer);
}

/// A numeric type. Lists of numbers are packed.
pub trait Scalar: Sized + Copy {
    /// Converts a value from the wire; returns `None` if the value has another wire type.
    fn from_value(value: &Value<'_>) -> Option<Self>;

    /// Reads the next number of a packed list.
    ///
    /// # Errors
    /// If the list ends within the number.
    fn unpack(reader: &mut Reader<'_>) -> Result<Self, Malformed>;

    /// Writes the number as an element of a packed list.
    fn pack(self, writer: &mut Writer);

    /// Writes the number as a field, even if it has the default value.
    fn write(self, number: u32, writer: &mut Writer);

    /// Returns whether all bits of the number are zero.
    fn is_default(self) -> bool;
}

macro_rules! scalars {
    ($($type:ty, $kind:ident, $read:ident, $write:ident, $from:expr, $to:expr;)*) => {$(
        impl Scalar for $type {
            fn from_value(value: &Value<'_>) -> Option<Self> {
                match value {
                    Value::$kind(value) => Some($from(*value)),
                    _ => None,
                }
            }

            fn unpack(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                reader.$read().map($from)
            }

            fn pack(self, writer: &mut Writer) {
                writer.$read($to(self));
            }

            fn write(self, number: u32, writer: &mut Writer) {
                writer.$write(number, $to(self));
            }

            fn is_default(self) -> bool {
                $to(self) == 0
            }
        }

        impl Field for $type {
            fn read(&mut self, value: Value<'_>) -> Result<(), Malformed> {
                *self = Scalar::from_value(&value).unwrap_or(*self);
                Ok(())
            }

            fn write(&self, number: u32, writer: &mut Writer) {
                if !self.is_default() {
                    Scalar::write(*self, number, writer);
                }
            }
        }

        /// An optional number. If present, it may be zero.
        impl Field for Option<$type> {
            fn read(&mut self, value: Value<'_>) -> Result<(), Malformed> {
                *self = Scalar::from_value(&value).or(*self);
                Ok(())
            }

            fn write(&self, number: u32, writer: &mut Writer) {
                if let Some(value) = self {
                    Scalar::write(*value, number, writer);
                }
            }
        }

        impl Field for Vec<$type> {
            fn read(&mut self, value: Value<'_>) -> Result<(), Malformed> {
                read_list(self, value)
            }

            fn write(&self, number: u32, writer: &mut Writer) {
                write_list(self, number, writer);
            }
        }
    )*};
}

// As in all implementations of protobuf, an integer with more bits than its type is truncated to the low bits, and a
// bool is true if any bit is set. A negative number is written with 64 bits.
scalars! {
    u32, Varint, varint, varint_field, low, u64::from;
    u64, Varint, varint, varint_field, |wire: u64| wire, |value: u64| value;
    i32, Varint, varint, varint_field, |wire: u64| low(wire).cast_signed(), |value: i32| i64::from(value).cast_unsigned();
    i64, Varint, varint, varint_field, u64::cast_signed, i64::cast_unsigned;
    bool, Varint, varint, varint_field, |wire: u64| wire != 0, u64::from;
    f64, Fixed64, fixed64, fixed64_field, f64::from_bits, f64::to_bits;
}

/// Appends a single number, or all numbers of a packed list.
fn read_list<T: Scalar>(list: &mut Vec<T>, value: Value<'_>) -> Result<(), Malformed> {
    if let Some(element) = T::from_value(&value) {
        return push(list, element);
    }
    if let Value::Delimited(mut packed) = value {
        while !packed.is_empty() {
            push(list, T::unpack(&mut packed)?)?;
        }
    }
    Ok(())
}

/// Writes a list of numbers in packed form, as in proto3.
fn write_list<T: Scalar>(list: &[T], number: u32, writer: &mut Writer) {
    if !list.is_empty() {
        writer
            .delimited_field(number, |writer| list.iter().for_each(|element| element.pack(writer)));
    }
}

fn push<T>(list: &mut Vec<T>, element: T) -> Result<(), Malformed> {
    if list.len() == MOST {
        return Err(Malformed::Many);
    }
    list.push(element);
    Ok(())
}

/// Returns a value as text; `None` if the value has another wire type.
fn text(value: &Value<'_>) -> Result<Option<String>, Malformed> {
    match value {
        Value::Delimited(reader) => core::str::from_utf8(reader.rest())
            .map(|text| Some(text.into()))
            .map_err(|_| Malformed::Text),
        _ => Ok(None),
    }
}

impl Field for String {
    fn read(&mut self, value: Value<'_>) -> Result<(), Malformed> {
        if let Some(text) = text(&value)? {
            *self = text;
        }
        Ok(())
    }

    fn write(&self, number: u32, writer: &mut Writer) {
        if !self.is_empty() {
            writer.bytes_field(number, self.as_bytes());
        }
    }
}

/// A string that may be absent, or present and empty (`optional` in the .proto file).
impl Field for Option<String> {
    fn read(&mut self, value: Value<'_>) -> Result<(), Malformed> {
        if let Some(text) = text(&value)? {
            *self = Some(text);
        }
        Ok(())
    }

    fn write(&self, number: u32, writer: &mut Writer) {
        if let Some(text) = self {
            writer.bytes_field(number, text.as_bytes());
        }
    }
}

impl Field for Vec<String> {
    fn read(&mut self, value: Value<'_>) -> Result<(), Malformed> {
        text(&value)?.map_or(Ok(()), |text| push(self, text))
    }

    fn write(&self, number: u32, writer: &mut Writer) {
        self.iter().for_each(|text| writer.bytes_field(number, text.as_bytes()));
    }
}

/// A field of type `bytes`.
impl Field for Vec<u8> {
    fn read(&mut self, value: Value<'_>) -> Result<(), Malformed> {
        if let Value::Delimited(reader) = value {
            *self = reader.rest().into();
        }
        Ok(())
    }

    fn write(&self, number: u32, writer: &mut Writer) {
        if !self.is_empty() {
            writer.bytes_field(number, self);
        }
    }
}

impl<M: Message> Field for Option<M> {
    fn read(&mut self, value: Value<'_>) -> Result<(), Malformed> {
        match value {
            Value::Delimited(reader) => self.get_or_insert_default().merge(reader),
            _ => Ok(()),
        }
    }

    fn write(&self, number: u32, writer: &mut Writer) {
        if let Some(message) = self {
            writer.delimited_field(number, |writer| message.write(writer));
        }
    }
}

impl<M: Message> Field for Vec<M> {
    fn read(&mut self, value: Value<'_>) -> Result<(), Malformed> {
        let Value::Delimited(reader) = value else { return Ok(()) };
        let mut message = M::default();
        message.merge(reader)?;
        push(self, message)
    }

    fn write(&self, number: u32, writer: &mut Writer) {
        for message in self {
            writer.delimited_field(number, |writer| message.write(writer));
        }
    }
}

/// A field of type `map<string, string>`. On the wire, it is a list of messages with the key in field 1 and the value
/// in field 2. If a key is repeated, its last value wins.
impl Field for BTreeMap<String, String> {
    fn read(&mut self, value: Value<'_>) -> Result<(), Malformed> {
        let Value::Delimited(mut reader) = value else { return Ok(()) };
        let (mut key, mut content) = (String::new(), String::new());
        while let Some((number, value)) = reader.field()? {
            match number {
                1 => key.read(value)?,
                2 => content.read(value)?,
                _ => {}
            }
        }
        if self.len() == MOST && !self.contains_key(&key) {
            return Err(Malformed::Many);
        }
        self.insert(key, content);
        Ok(())
    }

    fn write(&self, number: u32, writer: &mut Writer) {
        for (key, value) in self {
            writer.delimited_field(number, |writer| {
                writer.bytes_field(1, key.as_bytes());
                writer.bytes_field(2, value.as_bytes());
            });
        }
    }
}

/// Defines a message: a struct with public fields, `decode` and `encode`. Each field is given by a docstring, its
/// number, its name and its type. The type must implement [`Field`]. These types do:
///
/// - numbers: `u32`, `u64`, `i32` (also for enums), `i64`, `bool` and `f64`
/// - `String`, and `Vec<u8>` for bytes
/// - an `Option` of a number, of a string or of a message
/// - a list (`Vec`) of numbers, of strings or of messages
/// - a map (`BTreeMap`) from strings to strings
///
/// If the struct can be sent in an Any, its type URL follows the name: `pub struct Name = "package.Name" {`.
macro_rules! message {
    ($(
        $(#[$about:meta])*
        pub struct $name:ident $(= $url:literal)? {$(
            $(#[$meaning:meta])*
            $number:literal => $field:ident: $type:ty,
        )*}
    )*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $name {$(
            $(#[$meaning])*
            pub $field: $type,
        )*}

        impl $name {
            /// Decodes the message. Missing fields get their default values.
            ///
            /// # Errors
            /// If the bytes are not a protobuf message.
            pub fn decode(bytes: &[u8]) -> ::core::result::Result<Self, $crate::wire::Malformed> {
                let mut message = Self::default();
                $crate::message::Message::merge(&mut message, $crate::wire::Reader::new(bytes))?;
                Ok(message)
            }

            /// Encodes the message. Fields are written in the order of declaration, unless they have default values.
            pub fn encode(&self) -> ::alloc::vec::Vec<u8> {
                let mut writer = $crate::wire::Writer::default();
                $crate::message::Message::write(self, &mut writer);
                writer.into_bytes()
            }
        }

        impl $crate::message::Message for $name {
            fn merge(
                &mut self,
                mut reader: $crate::wire::Reader<'_>,
            ) -> ::core::result::Result<(), $crate::wire::Malformed> {
                while let Some((number, value)) = reader.field()? {
                    match number {
                        $($number => $crate::message::Field::read(&mut self.$field, value)?,)*
                        _ => _ = value,
                    }
                }
                Ok(())
            }

            fn write(&self, writer: &mut $crate::wire::Writer) {
                $($crate::message::Field::write(&self.$field, $number, writer);)*
                let _ = writer;
            }

            fn counter(&mut self, name: &str) -> ::core::option::Option<&mut u64> {
                $(if name == stringify!($field) {
                    return (&mut self.$field as &mut dyn ::core::any::Any).downcast_mut();
                })*
                let _ = name;
                None
            }
        }

        $(impl $crate::message::Packed for $name {
            const TYPE_URL: &'static str = $url;
        })?
    )*};
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
