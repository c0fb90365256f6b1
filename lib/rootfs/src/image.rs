//! Lookup of images in a store by name or digest.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;
use sys::Context;
use sys::fs::open_dir;

use crate::remove::names;
use crate::{Error, name};

/// A reference with this many hexadecimal digits is treated as a digest, or as the beginning of a digest.
const DIGITS: core::ops::RangeInclusive<usize> = 8..=64;
/// The maximum number of similar names listed in an error.
const MOST_ALIKE: usize = 3;
/// The number of digits that `dayfly image ls` prints.
const SHOWN: usize = 12;
/// The number of digits of a digest.
const LONGEST: usize = 64;
/// The default tag.
const LATEST: &str = "latest";
/// The time to wait for a command that removes images.
const PATIENCE: Duration = Duration::from_secs(60);

/// An image in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The image's directory.
    pub directory: String,
    /// The name by which the image was found; `None` if it was found by a digest.
    pub name: Option<String>,
    /// Whether the reference is only the last part of the name, and so does not determine the
    /// registry.
    pub by_end: bool,
}

impl Found {
    /// Returns a sentence for the user that names the image, if the reference is only the last part of its name.
    #[must_use]
    pub fn remark(&self, reference: &str) -> Option<String> {
        let name = self.name.as_ref().filter(|_| self.by_end)?;
        Some(format!("image {reference} is {name}, the only image whose name ends like this"))
    }
}

/// Finds an image by its name; by the digest of its manifest or configuration, or a prefix of that digest; or by the
/// last part of its name, if only one image has it.
///
/// # Errors
/// If no image or more than one image matches.
pub fn look_up(store: &str, reference: &str) -> Result<Found, Error> {
    let tagged = with_tag(reference);
    // Names are stored in their shortest form; earlier versions stored them as the user gave them.
    for name in [Cow::Borrowed(name::familiar(&tagged)), Cow::Owned(name::full(&tagged))] {
        if let Some(directory) = target(store, &name)? {
            return Ok(Found { directory, name: Some(name.into_owned()), by_end: false });
        }
    }
    let digits = reference.strip_prefix("sha256:").unwrap_or(reference);
    let found =
        match DIGITS.contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            true => beginning_with(store, digits)?,
            false => Vec::new(),
        };
    match &found[..] {
        [digest] => {
            let directory = format!("{store}/images/{digest}");
            Ok(Found { directory, name: None, by_end: false })
        }
        [] => by_last_part(store, reference),
        _ => {
            Err(Error::AmbiguousImage { reference: reference.to_string(), names: shortened(found) })
        }
    }
}

/// Returns the first few digests in sorted order. They are shortened to as many digits as `dayfly image ls` prints, or
/// to more digits if they differ only later.
fn shortened(mut digests: Vec<String>) -> Vec<String> {
    digests.sort();
    digests.truncate(MOST_ALIKE);
    let differ = |length: &usize| {
        digests.windows(2).all(|pair| pair[0].get(..*length) != pair[1].get(..*length))
    };
    let length = (SHOWN..LONGEST).find(differ).unwrap_or(LONGEST);
    digests.iter().map(|digest| digest.get(..length).unwrap_or(digest).to_string()).collect()
}

/// Returns the directory of the image with exactly this name.
fn target(store: &str, name: &str) -> Result<Option<String>, Error> {
    let path = format!("{store}/refs/{}", encode(name));
    match readlinkat(CWD, path.as_str(), Vec::new()) {
        Ok(target) => {
            let target = target.to_string_lossy();
            let digest = target.rsplit('/').next().unwrap_or_default();
            Ok(Some(format!("{store}/images/{digest}")))
        }
        Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(None),
        Err(errno) => Err(sys::Error::new("readlink", path, errno).into()),
    }
}

/// Finds the image whose name ends in the reference, such as `box` for `localhost/box:latest` and `layout:box`.
fn by_last_part(store: &str, reference: &str) -> Result<Found, Error> {
    let names = names_of(store);
    let meant: Vec<&String> = names.iter().filter(|name| is_short_for(reference, name)).collect();
    let none = |alike| Error::NoImage {
        store: store.to_string(),
        reference: reference.to_string(),
        alike,
    };
    match &meant[..] {
        [] => Err(none(alike(&names, reference))),
        [name] => match target(store, name)? {
            Some(directory) => Ok(Found { directory, name: Some((*name).clone()), by_end: true }),
            None => Err(none(Vec::new())),
        },
        _ => Err(Error::AmbiguousImage {
            reference: reference.to_string(),
            names: meant.into_iter().take(MOST_ALIKE).cloned().collect(),
        }),
    }
}

/// Returns whether a reference is the last part of a name. The tags must be the same; a reference without a tag matches
/// the tag `latest`. A reference may also be a tag alone, because images from OCI layouts are named by their tags.
fn is_short_for(reference: &str, name: &str) -> bool {
    let (path, tag) = split_tag(name);
    let (wanted, wanted_tag) = split_tag(reference);
    if wanted.is_empty() || reference.contains('@') {
        return false;
    }
    let ends = path.strip_suffix(wanted).is_some_and(|before| before.ends_with('/'));
    match wanted_tag {
        "" => ends && tag == LATEST || wanted == tag && tag != LATEST,
        wanted_tag => ends && wanted_tag == tag,
    }
}

/// Returns the images whose manifest digest begins with these digits. If there are none, returns the images whose
/// configuration digest begins with them: Docker and Podman use the configuration digest as the image ID.
fn beginning_with(store: &str, digits: &str) -> Result<Vec<String>, Error> {
    let path = format!("{store}/images");
    let all = match open_dir(CWD, path.as_str()) {
        Err(Errno::NOENT) => return Ok(Vec::new()),
        directory => directory.and_then(|directory| names(directory.as_fd())),
    };
    let all = all.context("read", &path)?;
    let all: Vec<&str> = all.iter().filter_map(|name| name.to_str().ok()).collect();
    let manifests = all.iter().filter(|name| name.starts_with(digits));
    let found: Vec<String> = manifests.map(ToString::to_string).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let of_configuration = |image: &&&str| {
        let text = sys::fs::read_text(format!("{path}/{image}/manifest.json").as_str());
        text.is_ok_and(|text| configuration(&text).is_some_and(|hex| hex.starts_with(digits)))
    };
    Ok(all.iter().filter(of_configuration).map(ToString::to_string).collect())
}

/// Returns the digits of the configuration's digest in a manifest: the first digest in the JSON object `config`. That
/// object may contain one other object, `annotations` (image-spec, manifest.md), which is not used there in practice.
fn configuration(manifest: &str) -> Option<&str> {
    let (_, config) = manifest.split_once("\"config\"")?;
    let config = config.trim_start().strip_prefix(':')?.trim_start().strip_prefix('{')?;
    let (config, _) = config.split_once('}')?;
    let (_, digest) = config.split_once("\"digest\"")?;
    let digest = digest.trim_start().strip_prefix(':')?.trim_start().strip_prefix("\"sha256:")?;
    let (hex, _) = digest.split_once('"')?;
    hex.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(hex)
}

/// Returns all names in a store, sorted.
#[must_use]
pub fn names_of(store: &str) -> Vec<String> {
    let refs = open_dir(CWD, format!("{store}/refs"));
    let Ok(all) = refs.and_then(|directory| names(directory.as_fd())) else { return Vec::new() };
    let mut all: Vec<String> =
        all.iter().filter_map(|file| file.to_str().ok()).map(decode).collect();
    all.sort();
    all
}

/// Returns the names that the user may have meant: the reference is the last part of the name, its tag, or the name
/// without its tag.
fn alike(names: &[String], reference: &str) -> Vec<String> {
    let (wanted, _) = split_tag(name::familiar(reference));
    let is_alike = |there: &&String| {
        let (path, tag) = split_tag(there);
        let last = path.rsplit('/').next().unwrap_or_default();
        !wanted.is_empty() && (wanted == path || wanted == last || wanted == tag)
    };
    names.iter().filter(is_alike).take(MOST_ALIKE).cloned().collect()
}

/// Splits a reference into its name and its tag, if it has one.
fn split_tag(reference: &str) -> (&str, &str) {
    let name = reference.split('@').next().unwrap_or_default();
    match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (name, ""),
    }
}

/// Adds the default tag to a reference that has neither tag nor digest.
fn with_tag(reference: &str) -> String {
    let last = reference.rsplit('/').next().unwrap_or_default();
    match last.contains([':', '@']) {
        true => reference.to_string(),
        false => format!("{reference}:{LATEST}"),
    }
}

/// Encodes a reference as a file name.
pub fn encode(reference: &str) -> String {
    reference.replace('%', "%25").replace('/', "%2F")
}

/// Decodes a file name to its reference.
pub fn decode(file: &str) -> String {
    file.replace("%2F", "/").replace("%25", "%")
}

/// Acquires a shared lock on the store. No image is removed until the lock is dropped.
///
/// # Errors
/// If the store cannot be written.
pub fn lock(store: &str) -> Result<OwnedFd, sys::Error> {
    let path = format!("{store}/lock");
    let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::CLOEXEC;
    let lock = openat(CWD, path.as_str(), flags, Mode::RUSR | Mode::WUSR).context("open", &path)?;
    let shared = FlockOperation::NonBlockingLockShared;
    match sys::wait::lock(&lock, shared, PATIENCE) {
        // A command that removes images, or one that was stopped.
        Err(Errno::AGAIN) => {
            let object = format!("{path}, which another process has held for a minute");
            Err(sys::Error::new("flock", object, Errno::AGAIN))
        }
        result => result.map(|()| lock).context("flock", &path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(store: &str, reference: &str) -> Result<String, Error> {
        look_up(store, reference).map(|found| found.directory)
    }

    #[test]
    fn digests_and_their_beginnings() {
        let dir = std::env::temp_dir().join(format!("dayfly-find-{}", std::process::id()));
        let store = dir.to_str().unwrap();
        let (one, two) = ("a".repeat(64), format!("{}b", "a".repeat(63)));
        for digest in [&one, &two] {
            std::fs::create_dir_all(dir.join("images").join(digest)).unwrap();
        }
        let path = Ok(format!("{store}/images/{one}"));
        assert_eq!(find(store, &one), path);
        assert_eq!(find(store, &format!("sha256:{one}")), path);
        let many = |names| Error::AmbiguousImage { reference: "aaaaaaaa".into(), names };
        assert_eq!(find(store, "aaaaaaaa"), Err(many(vec![one.clone(), two.clone()])));
        // Two manifests of an image have the same configuration.
        let (three, four) = ("c".repeat(64), "d".repeat(64));
        for digest in [&three, &four] {
            let directory = dir.join("images").join(digest);
            std::fs::create_dir_all(&directory).unwrap();
            let manifest = format!(r#"{{"config":{{"digest":"sha256:{}"}}}}"#, "e".repeat(64));
            std::fs::write(directory.join("manifest.json"), manifest).unwrap();
        }
        let error = find(store, "eeeeeeee").unwrap_err().to_string();
        assert_eq!(error, "image eeeeeeee may be cccccccccccc or dddddddddddd: name one in full");
        for none in ["aaaaaaa", "aaaaaaab", "../images", "", &"a".repeat(300)] {
            assert!(matches!(find(store, none), Err(Error::NoImage { .. })), "{none}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn one_image_has_many_spellings() {
        let dir = std::env::temp_dir().join(format!("dayfly-names-{}", std::process::id()));
        let store = dir.to_str().unwrap();
        std::fs::create_dir_all(dir.join("refs")).unwrap();
        // The last file name has the form of earlier versions.
        let files =
            ["alpine:latest", "localhost%2Fbox:1", "layout:box", "docker.io%2Flibrary%2Fold:1"];
        for file in files {
            std::os::unix::fs::symlink(format!("../images/{file}"), dir.join("refs").join(file))
                .unwrap();
        }
        for (text, file) in [
            ("alpine", files[0]),
            ("docker.io/alpine", files[0]),
            ("index.docker.io/library/alpine:latest", files[0]),
            ("old:1", files[3]),
            ("docker.io/library/old:1", files[3]),
        ] {
            assert_eq!(find(store, text), Ok(format!("{store}/images/{file}")), "{text}");
        }
        for (text, meant) in [
            ("localhost/box", vec!["localhost/box:1"]),
            ("box:2", vec!["layout:box", "localhost/box:1"]),
            ("alpine:3", vec!["alpine:latest"]),
            ("registry.test/alpine", vec![]),
            ("latest", vec!["alpine:latest"]),
            ("", vec![]),
        ] {
            let Err(Error::NoImage { alike, .. }) = find(store, text) else { panic!("{text}") };
            assert_eq!(alike, meant, "{text}");
        }
        let named = |text: &str| look_up(store, text).map(|found| found.name.unwrap());
        for (text, name) in [("box", "layout:box"), ("box:1", "localhost/box:1")] {
            assert_eq!(named(text).as_deref(), Ok(name), "{text}");
        }
        for (text, remark) in [
            (
                "box:1",
                Some("image box:1 is localhost/box:1, the only image whose name ends like this"),
            ),
            ("localhost/box:1", None),
            ("alpine", None),
            ("docker.io/alpine", None),
            ("old:1", None),
        ] {
            let found = look_up(store, text).unwrap();
            assert_eq!(found.remark(text).as_deref(), remark, "{text}");
        }
        let add =
            |file: &str| std::os::unix::fs::symlink("../images/x", dir.join("refs").join(file));
        add("registry.test%2Fteam%2Fbox:latest").unwrap();
        for text in ["team/box", "team/box:latest", "registry.test/team/box"] {
            assert_eq!(named(text).as_deref(), Ok("registry.test/team/box:latest"), "{text}");
        }
        let names = vec!["layout:box".into(), "registry.test/team/box:latest".into()];
        assert_eq!(named("box"), Err(Error::AmbiguousImage { reference: "box".into(), names }));
        for text in ["eam/box", "ox", "box@sha256:00", "team/box:1"] {
            assert!(matches!(named(text), Err(Error::NoImage { .. })), "{text}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn the_digest_of_a_configuration() {
        let hex = "5e".repeat(32);
        for manifest in [
            format!(r#"{{"config":{{"digest":"sha256:{hex}","size":1}},"layers":[]}}"#),
            format!(
                "{{ \"layers\": [{{\"digest\": \"sha256:00\"}}],\n \"config\" : {{ \"size\": 1,\n \"digest\" : \"sha256:{hex}\" }} }}"
            ),
        ] {
            assert_eq!(configuration(&manifest), Some(&*hex), "{manifest}");
        }
        for manifest in ["", "{}", r#"{"config":{}}"#, r#"{"config":{"digest":"sha256:../x"}}"#] {
            assert_eq!(configuration(manifest), None, "{manifest}");
        }
    }
}
