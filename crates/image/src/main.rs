//! The `dayfly-image` program, which `dayfly image` and `dayfly rootfs` execute.

use clap::Parser;
use dayfly_image::options::Options;

fn main() {
    match Options::parse().command {}
}
