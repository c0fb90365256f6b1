//! PAX records and maps of sparse files.
//!
//! Records are delimited by their lengths: a value may contain any byte, including newlines.

use crate::error::{Error, Result, ensure, unfit};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The maximum length of an extended attribute's value, in bytes (XATTR_SIZE_MAX).
const LONGEST_VALUE: usize = 64 << 10;
/// The maximum length of an extended attribute's name, in bytes (XATTR_NAME_MAX).
const LONGEST_NAME: usize = 255;
/// The maximum length of a file's list of zero-terminated attribute names, in bytes (XATTR_LIST_MAX).
const LONGEST_LIST: usize = 64 << 10;
/// The maximum total length of the values of an entry's attributes, in bytes.
const VALUES: usize = 1 << 20;
/// The maximum number of segments of a sparse file.
const SEGMENTS: usize = 1 << 17;

/// Extended attributes.
pub type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A segment of a sparse file in the archive: its offset in the file, and its length.
pub type Segment = (u64, u64);

/// The PAX records of an entry. Long values are shared, because a global header applies to each entry.
#[derive(Debug, Clone, Default)]
pub struct Pax {
    /// The name of the entry.
    pub path: Option<Rc<[u8]>>,
    /// The link target of the entry.
    pub link: Option<Rc<[u8]>>,
    /// The size of the entry in the archive, in bytes.
    pub size: Option<u64>,
    /// The owner of the entry.
    pub uid: Option<u32>,
    /// The group of the entry.
    pub gid: Option<u32>,
    /// Modification time: seconds since 1970, and nanoseconds.
    pub mtime: Option<(i64, u32)>,
    /// The extended attributes of the entry.
    pub xattrs: Rc<Xattrs>,
    /// GNU tar's records of a sparse file.
    pub sparse: Sparse,
    /// The total length of the zero-terminated names of extended attributes, in bytes. `values` is the total length of
    /// the attributes' values.
    names: usize,
    values: usize,
}

/// The records of a sparse file.
#[derive(Debug, Clone, Default)]
pub struct Sparse {
    /// The format's version.
    pub major: Option<u64>,
    /// The length of the file including holes.
    pub size: Option<u64>,
    /// The name of the file.
    pub name: Option<Rc<[u8]>>,
    /// The segments in the archive, in formats 0.0 and 0.1.
    pub map: Option<Rc<Vec<Segment>>>,
    offset: Option<u64>,
}

impl Pax {
    /// Adds the records in `text`; later records replace earlier ones.
    ///
    /// # Errors
    /// [`Error::Unfit`] if they are malformed.
    pub fn add(&mut self, mut text: &[u8]) -> Result<()> {
        while !text.is_empty() {
            // Some writers pad with zeros.
            if text.iter().all(|&byte| byte == 0) {
                break;
            }
            let (record, rest) = split(text).ok_or_else(malformed)?;
            let equals = record.iter().position(|&byte| byte == b'=').ok_or_else(malformed)?;
            self.record(&record[..equals], &record[equals + 1..])?;
            text = rest;
        }
        Ok(())
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let text = || (!value.is_empty()).then(|| value.into());
        if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
            return self.xattr(name, value);
        }
        match key {
            b"path" => self.path = text(),
            b"linkpath" => self.link = text(),
            b"size" => self.size = Some(number(value)?),
            b"uid" => self.uid = Some(id(number(value)?)?),
            b"gid" => self.gid = Some(id(number(value)?)?),
            b"mtime" => self.mtime = Some(time(value).ok_or_else(malformed)?),
            b"GNU.sparse.major" => self.sparse.major = Some(number(value)?),
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => self.sparse.size = Some(number(value)?),
            b"GNU.sparse.name" => self.sparse.name = text(),
            b"GNU.sparse.map" => {
                let mut numbers = value.split(|&byte| byte == b',').map(number);
                let mut map = Vec::new();
                while let (Some(offset), Some(length)) = (numbers.next(), numbers.next()) {
                    add_segment(&mut map, (offset?, length?))?;
                }
                self.sparse.map = Some(Rc::new(map));
            }
            b"GNU.sparse.offset" => self.sparse.offset = Some(number(value)?),
            b"GNU.sparse.numbytes" => {
                let offset = self.sparse.offset.take().ok_or_else(malformed)?;
                let map = Rc::make_mut(self.sparse.map.get_or_insert_default());
                add_segment(map, (offset, number(value)?))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Records an extended attribute, and rejects one that exceeds the kernel's limits. The check is not left to
    /// setxattr(2), because attributes of directories are set only at the end.
    fn xattr(&mut self, name: &[u8], value: &[u8]) -> Result<()> {
        let xattrs = Rc::make_mut(&mut self.xattrs);
        if let Some(old) = xattrs.insert(name.to_vec(), value.to_vec()) {
            self.values -= old.len();
        } else {
            self.names += name.len() + 1;
        }
        self.values += value.len();
        for (what, length, most) in [
            ("name is", name.len(), LONGEST_NAME),
            ("value is", value.len(), LONGEST_VALUE),
            ("names are", self.names, LONGEST_LIST),
            ("values are", self.values, VALUES),
        ] {
            ensure!(
                length <= most,
                "the archive has an entry with extended attributes whose {what} {length} bytes long; a file can \
                 have {most}: pack it without them"
            );
        }
        Ok(())
    }

    /// Returns the size of the records for an entry, in bytes.
    pub fn weight(&self) -> u64 {
        let text = |text: &Option<Rc<[u8]>>| text.as_ref().map_or(0, |text| text.len());
        let map = self.sparse.map.as_ref().map_or(0, |map| map.len() * size_of::<Segment>());
        let texts = text(&self.path) + text(&self.link) + text(&self.sparse.name);
        (texts + map + self.names + self.values) as u64
    }
}

/// Adds a segment of a sparse file.
///
/// # Errors
/// [`Error::Unfit`] if there are too many.
pub fn add_segment(map: &mut Vec<Segment>, segment: Segment) -> Result<()> {
    ensure!(
        map.len() < SEGMENTS,
        "the archive has a sparse file of more than {SEGMENTS} parts: pack it without --sparse"
    );
    map.push(segment);
    Ok(())
}

/// Converts a number to a valid id.
///
/// # Errors
/// [`Error::Unfit`] if it is out of range.
pub fn id(number: u64) -> Result<u32> {
    u32::try_from(number).ok().filter(|&id| id != u32::MAX).ok_or_else(|| {
        unfit!("an entry belongs to the id {number}, which the kernel does not have")
    })
}

/// Parses a decimal number.
///
/// # Errors
/// [`Error::Unfit`] if the text is not such a number.
pub fn number(text: &[u8]) -> Result<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = str::from_utf8(text).ok().filter(|_| digits);
    text.and_then(|text| text.parse().ok()).ok_or_else(malformed)
}

/// Splits off the first record, without length and newline.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = text.iter().take(20).position(|&byte| byte == b' ')?;
    let length = usize::try_from(number(&text[..space]).ok()?).ok()?;
    let record = text.get(space + 1..length)?;
    Some((record.strip_suffix(b"\n")?, &text[length..]))
}

/// Parses `[-]SECONDS[.FRACTION]`.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let text = str::from_utf8(text).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let negative = seconds.starts_with('-');
    let seconds: i64 = seconds.parse().ok()?;
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanoseconds: u32 = digits.parse().ok().filter(|_| !digits.starts_with('+'))?;
    // The fraction of a negative time counts backwards, but the returned nanoseconds count forwards.
    Some(match (negative, nanoseconds) {
        (true, 1..) => (seconds.checked_sub(1)?, 1_000_000_000 - nanoseconds),
        _ => (seconds, nanoseconds),
    })
}

fn malformed() -> Error {
    unfit!("the archive has a malformed PAX header")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, value: &[u8]) -> Vec<u8> {
        let rest = key.len() + value.len() + 3;
        let mut length = rest + 1;
        while length != rest + length.to_string().len() {
            length = rest + length.to_string().len();
        }
        [format!("{length} {key}=").as_bytes(), value, b"\n"].concat()
    }

    #[test]
    fn times_have_fractions_on_both_sides_of_1970() {
        assert_eq!(time(b"12.5"), Some((12, 500_000_000)));
        assert_eq!(time(b"-1.25"), Some((-2, 750_000_000)));
        assert_eq!(time(b"-0.25"), Some((-1, 750_000_000)));
        assert_eq!(time(b"7"), Some((7, 0)));
        assert_eq!(time(b"7.x"), None);
    }

    #[test]
    fn what_is_malformed_is_refused() {
        for text in
            ["x", "5 a=b", "99 a=b\n", "6 ab=\n ", "18446744073709551615 a=b\n", "7 size=\n"]
        {
            assert!(Pax::default().add(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(Pax::default().add(&record("uid", b"4294967295")).is_err());
    }

    #[test]
    fn values_that_no_file_can_have_together() {
        let add = |pax: &mut Pax, name: &str, length: usize| {
            pax.add(&record(&format!("SCHILY.xattr.{name}"), &vec![b'x'; length]))
        };
        let mut pax = Pax::default();
        add(&mut pax, "user.a", LONGEST_VALUE).expect("longest");
        add(&mut pax, "user.a", 1).expect("replaced");
        assert_eq!((pax.weight(), pax.xattrs.len()), (8, 1));
        let sum = (0..100).find(|at| add(&mut pax, &format!("user.{at}"), 60 << 10).is_err());
        assert_eq!(sum, Some(17));
    }

    #[test]
    fn sparse_maps_come_in_two_forms() {
        let mut new = Pax::default();
        new.add(&record("GNU.sparse.map", b"0,5,100,7")).expect("0.1");
        let mut old = Pax::default();
        for (key, value) in
            [("offset", "0"), ("numbytes", "5"), ("offset", "100"), ("numbytes", "7")]
        {
            old.add(&record(&format!("GNU.sparse.{key}"), value.as_bytes())).expect("0.0");
        }
        assert_eq!(new.sparse.map, old.sparse.map);
        assert_eq!(new.sparse.map, Some(Rc::new(vec![(0, 5), (100, 7)])));
    }
}
