//! Messages: a header and a body.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use crate::systemd::dbus::wire::Writer;
use crate::systemd::dbus::{Error, Reader, Value};

/// Maximum length of a body, in bytes. The specification allows 128 MiB; systemd's replies to this client are a few
/// hundred bytes long.
const MAX_BODY: usize = 1 << 20;
/// Maximum length of the header fields, in bytes.
const MAX_FIELDS: usize = 64 << 10;
/// Length of the fixed part of a header, in bytes.
const FIXED: usize = 16;

const METHOD_CALL: u8 = 1;

// Codes of the header fields.
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;

/// A method call.
#[derive(Debug)]
pub struct Call<'a> {
    /// The name of the service; ignored on a peer-to-peer connection.
    pub destination: &'a str,
    /// The object path.
    pub path: &'a str,
    /// The interface.
    pub interface: &'a str,
    /// The method.
    pub member: &'a str,
    /// The arguments of the method.
    pub arguments: Vec<Value>,
}

impl Call<'_> {
    /// Encodes the call as a message.
    pub(crate) fn encode(&self, serial: u32, with_destination: bool) -> Vec<u8> {
        let mut fields = vec![
            (PATH, Value::Path(self.path.to_string())),
            (INTERFACE, Value::text(self.interface)),
            (MEMBER, Value::text(self.member)),
        ];
        if with_destination {
            fields.push((DESTINATION, Value::text(self.destination)));
        }
        encode(METHOD_CALL, serial, fields, &self.arguments)
    }
}

/// Encodes a message of this kind, with header fields and arguments.
pub(super) fn encode(
    kind: u8,
    serial: u32,
    mut fields: Vec<(u8, Value)>,
    arguments: &[Value],
) -> Vec<u8> {
    let mut body = Writer::default();
    let mut signature = String::new();
    for argument in arguments {
        argument.write(&mut body);
        argument.add_signature(&mut signature);
    }
    if !signature.is_empty() {
        fields.push((SIGNATURE, Value::Signature(signature)));
    }
    let field =
        |(code, value)| Value::Struct(vec![Value::Byte(code), Value::Variant(Box::new(value))]);
    let mut message = Writer::default();
    message.bytes.extend([b'l', kind, 0, 1]);
    message.length(body.bytes.len());
    message.u32(serial);
    Value::Array("(yv)".to_string(), fields.into_iter().map(field).collect()).write(&mut message);
    message.align(8);
    message.bytes.extend(body.bytes);
    message.bytes
}

/// The type of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The reply to the call with this serial.
    Return(u32),
    /// The error reply to the call with this serial.
    Error(u32),
    /// A signal.
    Signal,
    /// Any other type; such messages are ignored.
    Other,
}

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub(crate) kind: Kind,
    /// The interface of a signal.
    pub interface: String,
    /// The name of the signal, or of the method.
    pub member: String,
    pub(crate) error_name: String,
    /// The types of the message's arguments.
    pub signature: String,
    body: Vec<u8>,
    big_endian: bool,
}

impl Message {
    /// Returns the length in bytes of the message at the start of `bytes`, or `None` if `bytes` is too short to contain
    /// its header.
    ///
    /// # Errors
    /// If `bytes` does not begin with a valid message, or the message exceeds the limits.
    pub fn length(bytes: &[u8]) -> Result<Option<usize>, Error> {
        let Some(head) = bytes.get(..FIXED) else { return Ok(None) };
        let big_endian = match head.first() {
            Some(b'l') => false,
            Some(b'B') => true,
            _ => return Err(Error::Malformed("unknown byte order")),
        };
        if head.get(3) != Some(&1) {
            return Err(Error::Malformed("unknown protocol version"));
        }
        let mut reader = Reader::new(head, big_endian);
        let number = |reader: &mut Reader<'_>| Some(reader.u32()? as usize);
        let lengths = reader.u32().and_then(|_| {
            let body = number(&mut reader)?;
            reader.u32()?;
            Some((body, number(&mut reader)?))
        });
        match lengths {
            Some((body @ ..=MAX_BODY, fields @ ..=MAX_FIELDS)) => {
                Ok(Some((FIXED + fields).next_multiple_of(8) + body))
            }
            _ => Err(Error::Malformed("message too long")),
        }
    }

    /// Parses one complete message.
    ///
    /// # Errors
    /// [`Error::Malformed`]
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let malformed = Error::Malformed("header");
        if Self::length(bytes)? != Some(bytes.len()) {
            return Err(malformed);
        }
        Self::parse_header(bytes).ok_or(malformed)
    }

    fn parse_header(bytes: &[u8]) -> Option<Self> {
        let big_endian = bytes.first() == Some(&b'B');
        let kind = *bytes.get(1)?;
        let mut reader = Reader::new(bytes, big_endian);
        reader.take(12)?;
        let end = FIXED.checked_add(reader.u32()? as usize)?;
        let mut message = Self {
            kind: Kind::Other,
            interface: String::new(),
            member: String::new(),
            error_name: String::new(),
            signature: String::new(),
            body: Vec::new(),
            big_endian,
        };
        let mut reply_to = 0;
        while reader.at() < end {
            reader.align(8)?;
            let code = reader.u8()?;
            match (code, reader.signature()?) {
                (INTERFACE, "s") => message.interface = reader.string()?.to_string(),
                (MEMBER, "s") => message.member = reader.string()?.to_string(),
                (ERROR_NAME, "s") => message.error_name = reader.string()?.to_string(),
                (SIGNATURE, "g") => message.signature = reader.signature()?.to_string(),
                (REPLY_SERIAL, "u") => reply_to = reader.u32()?,
                // The value of a known field has the wrong type.
                (INTERFACE | MEMBER | ERROR_NAME | SIGNATURE | REPLY_SERIAL, _) => return None,
                (_, other) => reader.skip(other)?,
            }
        }
        if reader.at() != end {
            return None;
        }
        message.kind = match kind {
            2 => Kind::Return(reply_to),
            3 => Kind::Error(reply_to),
            4 => Kind::Signal,
            _ => Kind::Other,
        };
        message.body = bytes.get(end.next_multiple_of(8)..)?.to_vec();
        Some(message)
    }

    /// Returns a reader of the message's arguments, which are in the order of its signature.
    pub fn body(&self) -> Reader<'_> {
        Reader::new(&self.body, self.big_endian)
    }

    /// Returns the first argument if it is a string.
    pub fn text(&self) -> Option<&str> {
        self.signature.starts_with(['s', 'o']).then(|| self.body().string())?
    }

    /// Returns the first argument if it is a variant that contains a string.
    pub fn variant_text(&self) -> Option<&str> {
        let mut reader = self.body();
        (self.signature == "v" && reader.signature()? == "s").then(|| reader.string())?
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
