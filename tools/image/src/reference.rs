//! Names of images.

use crate::digest::Digest;
use crate::error::{Result, unfit};
use rootfs::image::{decode, encode};
use rootfs::name;

/// The name of an image: `[HOST[:PORT]/]NAME[:TAG][@DIGEST]`. If there is neither a tag nor a digest, the tag is
/// `latest`. A name without a host belongs to Docker Hub ([`rootfs::name`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The name without tag and digest, in the familiar form.
    pub name: String,
    /// The tag.
    pub tag: Option<String>,
    /// The digest of the manifest or index.
    pub digest: Option<Digest>,
}

/// The maximum length of a file name, in bytes.
const LONGEST: usize = 255;

impl Reference {
    /// Parses a reference.
    ///
    /// # Errors
    /// [`Unfit`](crate::error::Error::Unfit) if it is malformed.
    pub fn parse(text: &str) -> Result<Self> {
        let unfit = |reason| unfit!("invalid image name {text:?}: {reason}");
        if text.contains("://") {
            return Err(unfit("it begins with the registry's host, without a protocol"));
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse()?)),
            None => (text, None),
        };
        // A colon before the last slash separates the port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        let words = |text: &str, more: &str| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.as_bytes().contains(&byte))
        };
        if name.is_empty() || name.len() > 200 {
            return Err(unfit("it is empty or too long"));
        }
        let part = |part: &str| {
            !part.is_empty()
                && words(part, "._-:[]")
                && !part.starts_with(['.', '-'])
                && part != ".."
        };
        if !name.split('/').all(part) {
            return Err(unfit(
                "it may have letters, digits, '.', '_', '-' and slashes between them",
            ));
        }
        if let Some(tag) = tag
            && (tag.is_empty()
                || tag.len() > 128
                || !words(tag, "._-")
                || tag.starts_with(['.', '-']))
        {
            return Err(unfit("a tag has up to 128 letters, digits, '.', '_' and '-'"));
        }
        let tag = match (tag, digest) {
            (None, None) => Some("latest"),
            _ => tag,
        };
        let name = name::familiar(name).to_owned();
        let reference = Self { name, tag: tag.map(str::to_owned), digest };
        if reference.file_name().len() > LONGEST {
            return Err(unfit("it is too long for a file name"));
        }
        Ok(reference)
    }

    /// Returns the registry's host, and the repository in that registry.
    ///
    /// # Errors
    /// [`Unfit`](crate::error::Error::Unfit) if no registry allows such names.
    pub fn registry(&self) -> Result<(String, String)> {
        let (host, repository) = name::split(&self.name);
        let unfit =
            |reason: &str| Err(unfit!("{self} is not a name of an image in a registry: {reason}"));
        let port = host.rsplit_once(':').map(|(_, port)| port).filter(|_| !host.ends_with(']'));
        if port.is_some_and(|port| port.parse::<u16>().is_err()) {
            return unfit("a port is a number up to 65535");
        }
        if repository.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return unfit("registries have lower-case letters only");
        }
        if repository.contains([':', '[', ']']) {
            return unfit("a colon is for a port or a tag");
        }
        Ok((host.to_owned(), repository.into_owned()))
    }

    /// Returns the full name, including the registry. Every engine interprets a full name in the same way.
    pub fn full(&self) -> String {
        Self { name: name::full(&self.name), ..self.clone() }.to_string()
    }

    /// Returns the name of the file that earlier versions created for this reference, if that name differs.
    pub fn old_file_name(&self) -> Option<String> {
        Some(encode(&self.full())).filter(|old| *old != self.file_name() && old.len() <= LONGEST)
    }

    /// Returns the name of this reference's file in the store.
    pub fn file_name(&self) -> String {
        encode(&self.to_string())
    }

    /// Parses the name of a file in the store.
    ///
    /// # Errors
    /// [`Unfit`](crate::error::Error::Unfit) if the file's name does not stand for a reference.
    pub fn from_file_name(file: &str) -> Result<Self> {
        Self::parse(&decode(file))
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        self.digest.map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for (text, full) in [
            ("web", "web:latest"),
            ("web:1.2", "web:1.2"),
            ("localhost:5000/team/web", "localhost:5000/team/web:latest"),
            ("registry.test/a/b:c", "registry.test/a/b:c"),
        ] {
            let reference = Reference::parse(text).expect(text);
            assert_eq!(reference.to_string(), full);
            let file = reference.file_name();
            assert!(!file.contains('/'));
            assert_eq!(Reference::from_file_name(&file).expect("file"), reference);
        }
    }

    #[test]
    fn a_digest_needs_no_tag() {
        let text = format!("a.test/b@{}", Digest::of(b""));
        let reference = Reference::parse(&text).expect("reference");
        assert_eq!(reference.tag, None);
        assert_eq!(reference.to_string(), text);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in
            ["", "/", "a//b", "../b", "a/../b", "a:", "a b", "a\nb", "-a", "a@sha256:1", "a:b c"]
        {
            assert!(Reference::parse(text).is_err(), "{text:?}");
        }
        // Each slash takes three bytes in the store.
        assert!(Reference::parse(&format!("a{}", "/a".repeat(60))).is_ok());
        assert!(Reference::parse(&format!("a{}", "/a".repeat(70))).is_err());
    }

    #[test]
    fn the_registry_is_told_from_the_name() {
        let registry = |text| {
            Reference::parse(text)
                .and_then(|r| r.registry().map(|(host, path)| format!("{host} {path}")))
        };
        assert_eq!(registry("alpine:3").expect("alpine"), "docker.io library/alpine");
        for text in ["registry.test/Web", "web:x/y", "registry.test:99999/web", "a.test/b:1/c"] {
            assert!(registry(text).is_err(), "{text}");
        }
    }
}
