//! The ranges of crun's mount options `idmap=` and `ridmap=`: `uids=0-100000-10#10-200000-1;gids=@0-0-10`.
//!
//! Each range is the first id of the files, the id of the host to which it is mapped, and the number of ids. An id of the
//! host after a `@` is relative: it is an id of the container's user namespace, which the namespace's own mappings
//! translate. Source: crun(1), "idmap mount options".

use alloc::vec::Vec;

use crate::IdMapping;

/// A mapping of the ids of a mount's files; see user_namespaces(7) and mount_setattr(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdMap<'a> {
    /// Whether mounts below the source are mapped, too (`ridmap`).
    pub recursive: bool,
    /// The ranges of crun's `idmap=`, for [`parse`].
    pub ranges: Option<&'a str>,
}

impl<'a> IdMap<'a> {
    /// Parses an option `idmap=RANGES` or `ridmap=RANGES`. Without ranges, it is `idmap` or `ridmap`, as in crun.
    pub fn parse(option: &'a str) -> Option<Self> {
        let (recursive, ranges) = match option.strip_prefix("idmap=") {
            Some(ranges) => (false, ranges),
            None => (true, option.strip_prefix("ridmap=")?),
        };
        Some(Self { recursive, ranges: Some(ranges).filter(|ranges| !ranges.is_empty()) })
    }
}

/// One range of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    map: IdMapping,
    is_relative: bool,
}

impl IdRange {
    /// Returns the range as a mapping to ids of the host; `own` is the mapping of the container's user namespace.
    /// Returns `None` if the range is relative and `own` does not contain its first id.
    pub fn absolute(self, own: &[IdMapping]) -> Option<IdMapping> {
        let IdRange { map, is_relative } = self;
        if !is_relative {
            return Some(map);
        }
        own.iter().find_map(|range| {
            let offset = map.host_id.checked_sub(range.container_id)?;
            let host_id = range.host_id.checked_add(offset)?;
            (offset < range.size).then_some(IdMapping { host_id, ..map })
        })
    }
}

/// Parses the value of an option: the ranges of user ids and of group ids.
///
/// # Errors
/// The reason. Both kinds of ids must be mapped: the kernel refuses a mount that maps only one kind.
pub fn parse(text: &str) -> Result<(Vec<IdRange>, Vec<IdRange>), &'static str> {
    let (mut uids, mut gids) = (Vec::new(), Vec::new());
    for part in text.split(';') {
        let (list, ranges) = match part.split_once('=') {
            Some(("uids", ranges)) => (&mut uids, ranges),
            Some(("gids", ranges)) => (&mut gids, ranges),
            _ => return Err("must be uids=RANGES;gids=RANGES"),
        };
        for word in ranges.split('#') {
            list.push(range(word).ok_or("a range must be ID-HOSTID-SIZE")?);
        }
    }
    match uids.is_empty() || gids.is_empty() {
        true => Err("uids and gids must both be mapped"),
        false => Ok((uids, gids)),
    }
}

fn range(word: &str) -> Option<IdRange> {
    let (is_relative, word) = match word.strip_prefix('@') {
        Some(word) => (true, word),
        None => (false, word),
    };
    let mut numbers = word.split('-').map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten();
    let map = IdMapping { container_id: next()?, host_id: next()?, size: next()? };
    numbers.next().is_none().then_some(IdRange { map, is_relative })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(container_id: u32, host_id: u32, size: u32) -> IdMapping {
        IdMapping { container_id, host_id, size }
    }

    #[test]
    fn options_have_ranges_or_none() {
        use crate::mount_options::MountOptions;
        let of = |option: &'static str| {
            let options: &'static [crate::Str<'static>] = Vec::leak(alloc::vec![option.into()]);
            MountOptions::parse(options).id_map
        };
        let ranges = Some("uids=0-1-2;gids=0-1-2");
        assert_eq!(of("ridmap=uids=0-1-2;gids=0-1-2"), Some(IdMap { recursive: true, ranges }));
        assert_eq!(of("idmap="), Some(IdMap { recursive: false, ranges: None }));
        assert_eq!(of("idmapped=1"), None);
    }

    #[test]
    fn ranges_are_read() {
        let (uids, gids) = parse("uids=0-1-10#10-11-5;gids=@1-3-10").unwrap();
        let of = |map, is_relative| IdRange { map, is_relative };
        assert_eq!(uids, [of(map(0, 1, 10), false), of(map(10, 11, 5), false)]);
        assert_eq!(gids, [of(map(1, 3, 10), true)]);
        for bad in [
            "",
            "uids=0-1-2",
            "uids=0-1;gids=0-0-1",
            "uids=0-0-1-1;gids=0-0-1",
            "foo",
            "uids=0-x-1;gids=0-0-1",
            "uids=;gids=0-0-1",
            "uids=0-0-1;gids=0-0-1;x=1",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    /// The example of crun(1).
    #[test]
    fn relative_ids_are_those_of_the_container() {
        let own = [map(0, 0, 1), map(1, 2, 1000)];
        let relative = |host| IdRange { map: map(1, host, 10), is_relative: true }.absolute(&own);
        assert_eq!(relative(3), Some(map(1, 4, 10)));
        assert_eq!(relative(1000), Some(map(1, 1001, 10)));
        assert_eq!(relative(1001), None);
    }
}
