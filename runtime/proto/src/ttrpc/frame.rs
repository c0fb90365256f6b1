//! Frames: a header of ten bytes, which contains the length of the contents, and then the contents.

/// The number of bytes of a header.
pub const HEADER: usize = 10;
/// The maximum number of bytes of a frame's contents.
pub const LONGEST: usize = 4 << 20;

/// The types of frames. Frames of other types must be ignored.
pub mod kind {
    /// Opens a stream. Sent by the client, with a [`Request`](crate::ttrpc::request::Request).
    pub const REQUEST: u8 = 1;
    /// Ends a stream. Sent by the server, with a [`Response`](crate::ttrpc::request::Response).
    pub const RESPONSE: u8 = 2;
    /// Intermediate data, from either side, on a stream whose request allows it.
    pub const DATA: u8 = 3;
}

/// The flags of frames.
pub mod flag {
    /// On a request or data frame: the sender will send no data frames after this one.
    pub const REMOTE_CLOSED: u8 = 1;
    /// On a request frame: the sender will send data frames.
    pub const REMOTE_OPEN: u8 = 2;
    /// On a data frame: it contains no data.
    pub const NO_DATA: u8 = 4;
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The number of bytes of the contents.
    pub length: u32,
    /// The stream's id, which is odd, because clients open the streams.
    pub stream: u32,
    /// The frame's type: one of [`kind`].
    pub kind: u8,
    /// Any of [`flag`], combined.
    pub flags: u8,
}

impl Header {
    /// Returns the header of a frame whose contents have this length.
    pub fn new(length: usize, stream: u32, kind: u8) -> Self {
        Self { length: u32::try_from(length).unwrap_or(u32::MAX), stream, kind, flags: 0 }
    }

    /// Decodes a header, whose numbers are big-endian.
    pub fn decode(bytes: [u8; HEADER]) -> Self {
        let [l0, l1, l2, l3, s0, s1, s2, s3, kind, flags] = bytes;
        Self {
            length: u32::from_be_bytes([l0, l1, l2, l3]),
            stream: u32::from_be_bytes([s0, s1, s2, s3]),
            kind,
            flags,
        }
    }

    /// Encodes the header as ten bytes.
    pub fn encode(self) -> [u8; HEADER] {
        let [l0, l1, l2, l3] = self.length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, l3, s0, s1, s2, s3, self.kind, self.flags]
    }

    /// Returns whether the frame's contents are longer than [`LONGEST`].
    pub fn is_too_long(self) -> bool {
        self.length as usize > LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let header =
            Header { length: 0x0102, stream: 0x0304_0506, kind: kind::DATA, flags: flag::NO_DATA };
        assert_eq!(header.encode(), [0, 0, 1, 2, 3, 4, 5, 6, 3, 4]);
        assert_eq!(Header::decode(header.encode()), header);
        assert!(!Header { length: 4 << 20, ..header }.is_too_long());
        assert!(Header { length: (4 << 20) + 1, ..header }.is_too_long());
    }
}
