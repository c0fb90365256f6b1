use super::*;
use std::os::unix::fs::PermissionsExt;

fn row(network: &'static str, count: usize, wall: f64) -> Row {
    let (wall_ms, ruler_wall_ms) = (vec![wall; 8], vec![2.0; 8]);
    Row { network, count, wall_ms, ruler_wall_ms, ..Row::default() }
}

#[test]
fn growth_is_from_ten_to_the_highest() {
    let of = |rows: &[Row]| {
        let found = growths(rows).into_iter();
        found.map(|it| (it.base, it.count, it.wall.map(|it| it.value))).collect::<Vec<_>>()
    };
    let rows = [row("a", 1, 5.0), row("a", 10, 2.0), row("a", 1000, 3.0), row("b", 7, 1.0)];
    assert_eq!(of(&rows), [(10, 1000, Some(1.5))]);
    assert_eq!(of(&[row("a", 1, 5.0), row("a", 20, 5.0)]), [(1, 20, Some(1.0))]);
    assert_eq!(of(&rows[1..2]), []);
}

#[test]
fn the_program_waits() {
    let file = std::env::temp_dir().join(format!("bench-wait-{}", std::process::id()));
    fs::write(&file, crowd::program()).expect("write");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("chmod");
    let mut child = Command::new(&file).spawn().expect("execute");
    sleep(Duration::from_millis(50));
    assert!(child.try_wait().expect("wait").is_none(), "it has ended");
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("stat");
    assert!(stat.contains(") S "), "{stat}");
    child.kill().expect("kill");
    child.wait().expect("its end");
    fs::remove_file(&file).expect("remove");
}
