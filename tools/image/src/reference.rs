//! Names of images.

use crate::digest::Digest;
use crate::error::{Error, Result};

/// The name of an image: `[HOST[:PORT]/]NAME[:TAG][@DIGEST]`. Without tag and digest the tag is `latest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The name without tag and digest.
    pub name: String,
    /// The tag.
    pub tag: Option<String>,
    /// The digest of the manifest or index.
    pub digest: Option<Digest>,
}

/// Bytes of a file's name.
const LONGEST: usize = 255;

impl Reference {
    /// From its text.
    ///
    /// # Errors
    /// [`Error::Unfit`] when it is not of the form.
    pub fn parse(text: &str) -> Result<Self> {
        let unfit = |reason| Error::Unfit(format!("{text:?} is no name of an image: {reason}"));
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse()?)),
            None => (text, None),
        };
        // A colon before the last slash belongs to the port.
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
        let reference = Self { name: name.to_owned(), tag: tag.map(str::to_owned), digest };
        if reference.file_name().len() > LONGEST {
            return Err(unfit("it is too long for a name of a file"));
        }
        Ok(reference)
    }

    /// The registry and the repository there.
    ///
    /// # Errors
    /// [`Error::Unfit`] when no registry is named.
    pub fn registry(&self) -> Result<(&str, &str)> {
        match self.name.split_once('/') {
            Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => {
                Ok((host, path))
            }
            _ => Err(Error::Unfit(format!(
                "{self} does not say from which registry: name it as HOST/NAME[:TAG]"
            ))),
        }
    }

    /// The name of its file in the store.
    #[must_use]
    pub fn file_name(&self) -> String {
        self.to_string().replace('%', "%25").replace('/', "%2F")
    }

    /// From the name of a file in the store.
    ///
    /// # Errors
    /// [`Error::Unfit`] when no such name leads there.
    pub fn from_file_name(file: &str) -> Result<Self> {
        Self::parse(&file.replace("%2F", "/").replace("%25", "%"))
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
        assert_eq!(registry("localhost/a").expect("host"), "localhost a");
        assert_eq!(registry("127.0.0.1:5000/a/b").expect("host"), "127.0.0.1:5000 a/b");
        assert!(registry("team/web").is_err());
    }
}
