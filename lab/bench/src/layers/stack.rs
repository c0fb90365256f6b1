//! Makes layers: a busybox at the bottom, and above it layers of one file each.

use crate::harness::*;
use crate::rootfs;

/// Unpacked layers below one directory, numbered from the bottom.
#[derive(Debug)]
pub(crate) struct Stack {
    directory: PathBuf,
    height: usize,
}

impl Stack {
    /// Makes `height` layers. The files belong to root, as in an image.
    ///
    /// # Errors
    /// No busybox; those of mkdir(2) and write(2).
    pub(crate) fn make(directory: &Path, height: usize) -> Result<Self, Error> {
        let stack = Self { directory: directory.to_owned(), height };
        if directory.exists() {
            return Ok(stack);
        }
        rootfs::make(&stack.layer(0), 0)?;
        for number in 1..height {
            let etc = stack.layer(number).join("etc");
            fs::create_dir_all(&etc).map_err(Error::at("make", &etc))?;
            let file = etc.join(format!("layer-{number}"));
            fs::write(&file, format!("{number}\n")).map_err(Error::at("write", &file))?;
        }
        Ok(stack)
    }

    /// Returns the directory that contains the layers.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the names of the lowest `count` layers in the directory, the top one first.
    pub(crate) fn names(&self, count: usize) -> Vec<String> {
        (0..count.min(self.height)).rev().map(|number| number.to_string()).collect()
    }

    fn layer(&self, number: usize) -> PathBuf {
        self.directory.join(number.to_string())
    }

    /// Writes the list of the lowest `count` layers, bottom first; returns its path.
    ///
    /// # Errors
    /// Those of write(2).
    pub(crate) fn list(&self, count: usize) -> Result<String, Error> {
        let count = count.min(self.height);
        let lines: String =
            (0..count).map(|number| format!("{}\n", self.layer(number).display())).collect();
        let file = self.directory.with_extension(format!("{count}"));
        fs::write(&file, lines).map_err(Error::at("write", &file))?;
        Ok(file.display().to_string())
    }
}
