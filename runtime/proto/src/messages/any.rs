//! `google.protobuf.Any`: a message of any type, or something in JSON, and what it is.

use alloc::string::String;
use alloc::vec::Vec;

use crate::message::Packed;
use crate::wire::{Malformed, Reader, Writer};

message! {
    /// `google.protobuf.Any`.
    pub struct Any {
        /// What `value` is: the full name of a message, as containerd writes it, or a URL that ends in one; of
        /// what is JSON, one of [`specs`](crate::messages::specs).
        1 => type_url: String,
        /// The message, encoded.
        2 => value: Vec<u8>,
    }
}

impl Any {
    /// A message and its type.
    pub fn pack<M: Packed>(message: &M) -> Self {
        let mut writer = Writer::default();
        message.write(&mut writer);
        Self { type_url: M::TYPE_URL.into(), value: writer.into_bytes() }
    }

    /// Whether it says that it is a message of type `M`. What stands before a slash is some server's name and
    /// does not count.
    pub fn is<M: Packed>(&self) -> bool {
        self.type_url.rsplit('/').next() == Some(M::TYPE_URL)
    }

    /// The message, if it says that it is of type `M`.
    ///
    /// # Errors
    /// If it says so and is not.
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
