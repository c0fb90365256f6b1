//! The version of the host's containerd, and how that version maps the ids of images (containerd PR #12092, and its
//! docs/user-namespaces: before 2.0 it maps none).

use super::facts::Facts;
use std::process::{Command, Stdio};

/// The containerd of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containerd {
    /// The version string of containerd.
    pub version: String,
    numbers: (u32, u32, u32),
}

impl Containerd {
    /// Finds the version: on this host, by asking the containerd in $PATH; otherwise, or if that fails, in Debian's
    /// package database.
    pub fn find(facts: &Facts) -> Option<Self> {
        let said = facts.is_live().then(ask).flatten();
        Self::parse(&said.or_else(|| packaged(facts))?)
    }

    fn parse(version: &str) -> Option<Self> {
        let digits = version.trim_start_matches('v');
        let mut numbers = digits
            .split(|letter: char| !letter.is_ascii_digit())
            .map(|number| number.parse::<u32>().ok());
        let numbers = (numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0));
        Some(Self { version: digits.to_owned(), numbers })
    }

    /// Returns whether this version makes one id-mapped mount, of the directory that contains all layers, instead of
    /// one per layer. Versions since 2.2.0 do so, and also 2.1.5 and 2.0.7.
    pub fn maps_once(&self) -> bool {
        match self.numbers {
            (2, 0, patch) => patch >= 7,
            (2, 1, patch) => patch >= 5,
            numbers => numbers >= (2, 2, 0),
        }
    }

    /// Returns whether this version makes an id-mapped mount per layer, as 2.0.0 to 2.0.6 and 2.1.0 to 2.1.4 do. Older
    /// ones map no ids: 1.6 ignores user namespaces, and 1.7 changes the owners of a copy.
    pub fn maps_each_layer(&self) -> bool {
        self.numbers >= (2, 0, 0) && !self.maps_once()
    }

    /// Returns whether this version inspects an image without mapping its ids first, as versions since 2.3.0 do.
    pub fn looks_unmapped(&self) -> bool {
        self.numbers >= (2, 3, 0)
    }

    /// Returns the number of mount operations for `starts` containers of images with `layers` layers, each container
    /// with its own id range. Each image is mounted twice: once to inspect it, and once to run it. The number includes
    /// the bind mounts of the layers, the overlay and the unmounts.
    pub fn mount_operations(&self, starts: u64, layers: u64) -> u64 {
        starts
            * match self {
                it if it.maps_each_layer() => 2 * (1 + 2 * layers),
                it if it.looks_unmapped() => 3 + 1,
                it if it.maps_once() => 2 * 3,
                _ => 2,
            }
    }
}

/// Asks the program for its version. Its output is `containerd github.com/containerd/containerd 1.6.20~ds1 …`.
fn ask() -> Option<String> {
    let mut command = Command::new("containerd");
    let output =
        command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_whitespace().nth(2).map(str::to_owned)
}

fn packaged(facts: &Facts) -> Option<String> {
    let status = facts.text("/var/lib/dpkg/status")?;
    let package = status.split("\n\n").find(|package| {
        let installed = package.contains("Status: install ok installed");
        let name = package.lines().find_map(|line| line.strip_prefix("Package: "));
        installed && matches!(name, Some("containerd" | "containerd.io"))
    })?;
    package.lines().find_map(|line| line.strip_prefix("Version: ")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_change_and_where_it_went() {
        for (version, once, operations) in [
            ("1.6.20~ds1", false, 200),
            ("1.7.29", false, 200),
            ("2.0.0", false, 20_200),
            ("2.0.6", false, 20_200),
            ("2.0.7", true, 600),
            ("2.1.4", false, 20_200),
            ("v2.1.5", true, 600),
            ("2.2.0", true, 600),
            ("2.4.2", true, 400),
            ("3.0", true, 400),
        ] {
            let it = Containerd::parse(version).unwrap();
            let found = (it.maps_once(), it.mount_operations(100, 50));
            assert_eq!(found, (once, operations), "{version}");
        }
        assert_eq!(Containerd::parse("unknown"), None);
    }
}
