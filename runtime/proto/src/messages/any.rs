//! `google.protobuf.Any`: a message of any type, or JSON, together with its type.

use alloc::string::String;
use alloc::vec::Vec;

use crate::message::Packed;
use crate::wire::{Malformed, Reader, Writer};

message! {
    /// `google.protobuf.Any`.
    pub struct Any {
        /// The type of `value`: a message's full name, as containerd writes it, or a URL that ends with this name; for
        /// JSON, one of [`specs`](crate::messages::specs).
        1 => type_url: String,
        /// The encoded message, or the JSON text.
        2 => value: Vec<u8>,
    }
}

impl Any {
    /// Encodes a message, together with its type.
    pub fn pack<M: Packed>(message: &M) -> Self {
        let mut writer = Writer::default();
        message.write(&mut writer);
        Self { type_url: M::TYPE_URL.into(), value: writer.into_bytes() }
    }

    /// Returns whether the type is `M`. The part before the last slash is the name of a server, and is ignored.
    pub fn is<M: Packed>(&self) -> bool {
        self.type_url.rsplit('/').next() == Some(M::TYPE_URL)
    }

    /// Decodes the message if the type is `M`; otherwise returns `None`.
    ///
    /// # Errors
    /// If the type is `M`, but the value is invalid.
    pub fn unpack<M: Packed>(&self) -> Result<Option<M>, Malformed> {
        if !self.is::<M>() {
            return Ok(None);
        }
        let mut message = M::default();
        message.merge(Reader::new(&self.value))?;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::time::Timestamp;

    #[test]
    fn packed_and_unpacked() {
        let time = Timestamp { seconds: 5, nanos: 6 };
        let mut any = Any::pack(&time);
        assert_eq!(any.type_url, "google.protobuf.Timestamp");
        assert_eq!(any.unpack(), Ok(Some(time.clone())));
        any.type_url.insert_str(0, "type.googleapis.com/");
        assert_eq!(any.unpack(), Ok(Some(time)));
        any.value = vec![0];
        assert!(any.unpack::<Timestamp>().is_err());
        any.type_url.push('x');
        assert_eq!(any.unpack::<Timestamp>(), Ok(None));
    }
}
