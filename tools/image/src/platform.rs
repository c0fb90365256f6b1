//! Selects an image of an index by platform.

use crate::error::{Result, ensure, unfit};
use crate::oci::{Descriptor, INDEX, Platform};

impl Platform {
    /// Returns this host's platform.
    pub fn host() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
            "riscv64" => "riscv64",
            other => other,
        };
        Self { architecture: architecture.to_owned(), os: "linux".to_owned(), variant: None }
    }

    /// Parses `OS/ARCHITECTURE[/VARIANT]`, or an architecture alone.
    ///
    /// # Errors
    /// [`Unfit`](crate::error::Error::Unfit) if the text has another form.
    pub fn parse(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split('/').collect();
        let (os, architecture, variant) = match words[..] {
            [architecture] => ("linux", architecture, None),
            [os, architecture] => (os, architecture, None),
            [os, architecture, variant] => (os, architecture, Some(variant.to_owned())),
            _ => ("", "", None),
        };
        ensure!(
            !(os.is_empty() || architecture.is_empty()),
            "{text:?} is not a platform: it must be like linux/amd64 or linux/arm/v7"
        );
        let architecture = match architecture {
            "x86_64" | "x86-64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Ok(Self { architecture: architecture.to_owned(), os: os.to_owned(), variant })
    }

    /// Returns whether an image for `other` matches this platform. If this platform has no variant, any variant
    /// matches.
    pub fn takes(&self, other: &Self) -> bool {
        self.os == other.os
            && self.architecture == other.architecture
            && (self.variant.is_none() || self.variant == other.variant)
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}

/// Returns the manifest for `wanted`. If the list has a single entry, and this entry states no platform or is an index
/// itself, returns this entry. Otherwise, returns the first match.
///
/// # Errors
/// [`Unfit`](crate::error::Error::Unfit), which lists the available platforms.
pub fn choose<'a>(manifests: &'a [Descriptor], wanted: &Platform) -> Result<&'a Descriptor> {
    let platform = |entry: &'a Descriptor| entry.platform.as_ref();
    if let [only] = manifests
        && (only.platform.is_none() || only.is(INDEX))
    {
        return Ok(only);
    }
    // A nested index without a platform is searched if nothing else matches.
    let fits = |entry: &&'a Descriptor| platform(entry).is_some_and(|p| wanted.takes(p));
    let nested = |entry: &&'a Descriptor| entry.is(INDEX) && entry.platform.is_none();
    let found = manifests.iter().find(fits).or_else(|| manifests.iter().find(nested));
    found.ok_or_else(|| {
        let there = manifests.iter().filter_map(platform).filter(|p| p.os != "unknown");
        let there: Vec<String> = there.map(ToString::to_string).collect();
        match there[..] {
            [] => unfit!("there is no image for {wanted}, and no image states its platform"),
            _ => unfit!(
                "there is no image for {wanted}: --platform takes one of {}",
                there.join(", ")
            ),
        }
    })
}
