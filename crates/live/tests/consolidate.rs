//! Files of several copies become one: means are right to the last bit, counters add up, and what is broken or does not fit is
//! named and leaves nothing behind.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use half::{bf16, f16};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use trainyard_live::consolidate::{ConsolidateError, Merged, Part, consolidate};

/// A tensor to be written: name, type, shape, bytes.
type Made = (&'static str, Dtype, Vec<usize>, Vec<u8>);

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, tensors: &[Made], metadata: &[(&str, &str)]) -> PathBuf {
        let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
            (*name, TensorView::new(*dtype, shape.clone(), bytes).expect("a tensor"))
        });
        let metadata: HashMap<String, String> =
            metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let bytes = safetensors::serialize(views, Some(metadata)).expect("it can be written");
        fs::write(self.path(name), bytes).expect("it is written");
        self.path(name)
    }

    /// The parts merged, with nothing else left.
    fn merge(&self, parts: &[Part], parent: Option<&Path>) -> Result<(Vec<u8>, Merged), ConsolidateError> {
        let told = BTreeMap::from([("trainyard.iteration".to_owned(), "7".to_owned())]);
        let to = self.path("out");
        let merged = consolidate(parts, parent, &told, &to);
        let part = self.path("out.part");
        assert!(!part.exists(), "what was begun is taken away");
        assert_eq!(merged.is_ok(), to.exists());
        merged.map(|merged| (fs::read(to).expect("it is there"), merged))
    }
}

fn part(path: PathBuf, iterations: f64) -> Part {
    Part { path, iterations }
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn whole(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn numbers_are_weighted_means_rounded_once() {
    let place = Place::new();
    let (weights, all) = ([120.0, 40.0, 17.0], 177.0);
    let values: [[f64; 4]; 3] = [[1.0, -2.5, 1e-3, 0.1], [3.0, 4.0, 5e-4, 0.1], [-1.0, 1e4, 1.0 / 3.0, 0.1]];
    let sixteen =
        |of: fn(f64) -> [u8; 2]| values.map(|row| row.into_iter().flat_map(of).collect::<Vec<u8>>());
    let halves = sixteen(|value| f16::from_f64_const(value).to_le_bytes());
    let brains = sixteen(|value| bf16::from_f64_const(value).to_le_bytes());
    let parts: Vec<Part> = (0..3)
        .map(|i| {
            let wide = values[i].iter().flat_map(|value| value.to_le_bytes()).collect();
            let narrow: Vec<f32> = values[i].iter().map(|value| *value as f32).collect();
            let tensors = [
                ("d", Dtype::F64, vec![4], wide),
                ("f", Dtype::F32, vec![2, 2], f32s(&narrow)),
                ("h", Dtype::F16, vec![4], halves[i].clone()),
                ("b", Dtype::BF16, vec![4], brains[i].clone()),
                ("none", Dtype::F32, vec![0, 3], Vec::new()),
            ];
            part(place.write(&format!("{i}"), &tensors, &[("format", "pt")]), weights[i])
        })
        .collect();
    let (bytes, merged) = place.merge(&parts, None).expect("they fit");
    assert_eq!(merged, Merged { averaged: 4, counted: 0, taken: Vec::new() });
    let read = SafeTensors::deserialize(&bytes).expect("a whole file");
    let (_, head) = SafeTensors::read_metadata(&bytes).expect("a whole file");
    let metadata = head.metadata().clone().expect("metadata");
    assert_eq!((metadata["format"].as_str(), metadata["trainyard.iteration"].as_str()), ("pt", "7"));
    let data = |name: &str| read.tensor(name).expect("it is there").data().to_vec();
    for column in 0..4 {
        let mean = |of: &dyn Fn(usize) -> f64| -> f64 { (0..3).map(|i| weights[i] / all * of(i)).sum() };
        let exact = mean(&|i| values[i][column]);
        let wide = f64::from_le_bytes(data("d")[8 * column..][..8].try_into().unwrap());
        // What is the same everywhere stays so to the last bit.
        assert_eq!(wide, if column == 3 { 0.1 } else { exact });
        let narrow = f32::from_le_bytes(data("f")[4 * column..][..4].try_into().unwrap());
        assert_eq!(narrow, mean(&|i| f64::from(values[i][column] as f32)) as f32);
        let two = |bytes: &[u8]| <[u8; 2]>::try_from(&bytes[2 * column..][..2]).unwrap();
        let half = mean(&|i| f16::from_le_bytes(two(&halves[i])).to_f64());
        assert_eq!(f16::from_le_bytes(two(&data("h"))), f16::from_f64_const(half));
        let brain = mean(&|i| bf16::from_le_bytes(two(&brains[i])).to_f64());
        assert_eq!(bf16::from_le_bytes(two(&data("b"))), bf16::from_f64_const(brain));
    }
}

#[test]
fn counters_add_up_from_what_they_were_and_the_rest_is_of_the_copy_that_did_most() {
    let place = Place::new();
    let of = |name: &str, step: i64, back: i64, dice: &[i64], flag: u8, note: &str| {
        let tensors = [
            ("adam.step", Dtype::I64, vec![], whole(&[step])),
            ("back", Dtype::I64, vec![1], whole(&[back])),
            ("kept", Dtype::I64, vec![2], whole(&[4, 5])),
            ("dice", Dtype::I64, vec![2], whole(dice)),
            ("flag", Dtype::BOOL, vec![1], vec![flag]),
        ];
        place.write(name, &tensors, &[("note", note), ("trainyard.iteration", "x")])
    };
    let parent = of("parent", 100, 9, &[0, 0], 0, "p");
    let parts = [
        part(of("0", 110, 8, &[1, 2], 0, "zero"), 10.0),
        part(of("1", 130, 11, &[3, 4], 1, "one"), 30.0),
        part(of("2", 105, 9, &[5, 6], 0, "two"), 5.0),
    ];
    let (bytes, merged) = place.merge(&parts, Some(&parent)).expect("they fit");
    assert_eq!((merged.averaged, merged.counted), (0, 1));
    let mut taken = merged.taken;
    taken.sort();
    assert_eq!(taken, ["back", "dice", "flag"], "none of these has a mean");
    let read = SafeTensors::deserialize(&bytes).expect("a whole file");
    let data = |name: &str| read.tensor(name).expect("it is there").data().to_vec();
    assert_eq!(data("adam.step"), whole(&[145]));
    assert_eq!((data("back"), data("kept")), (whole(&[11]), whole(&[4, 5])));
    assert_eq!((data("dice"), data("flag")), (whole(&[3, 4]), vec![1]));
    let (_, head) = SafeTensors::read_metadata(&bytes).expect("a whole file");
    let metadata = head.metadata().clone().expect("metadata");
    assert_eq!(metadata["note"], "one");
    assert_eq!(metadata["trainyard.iteration"], "7", "of an earlier merge nothing is left");
    // Counters that happen to be equal have counted all the same.
    let equal = [part(of("3", 110, 9, &[1, 2], 0, ""), 10.0), part(of("4", 110, 9, &[1, 2], 0, ""), 10.0)];
    let (bytes, _) = place.merge(&equal, Some(&parent)).expect("they fit");
    let read = SafeTensors::deserialize(&bytes).expect("a whole file");
    let data = |name: &str| read.tensor(name).expect("it is there").data().to_vec();
    assert_eq!((data("adam.step"), data("back")), (whole(&[120]), whole(&[9])));
    // Without anything before, a counter began at nought.
    let (bytes, _) = place.merge(&parts, None).expect("they fit");
    let read = SafeTensors::deserialize(&bytes).expect("a whole file");
    assert_eq!(read.tensor("adam.step").expect("it is there").data(), whole(&[345]));
}

#[test]
fn what_does_not_fit_is_told_with_file_and_tensor() {
    let place = Place::new();
    let good = place.write("good", &[("w", Dtype::F32, vec![2], f32s(&[1.0, 2.0]))], &[]);
    let large = i64::from(i16::MAX).to_le_bytes()[..2].to_vec();
    let small = |value: i16| value.to_le_bytes().to_vec();
    let cases: Vec<(Made, Made, &str)> = vec![
        (
            ("w", Dtype::F32, vec![2], f32s(&[1.0, 2.0])),
            ("w", Dtype::F32, vec![1, 2], f32s(&[1.0, 2.0])),
            "b: tensor `w` is F32 of shape [1, 2], and in",
        ),
        (
            ("w", Dtype::F32, vec![1], f32s(&[1.0])),
            ("w", Dtype::BF16, vec![1], vec![0, 0]),
            "b: tensor `w` is BF16 of shape [1], and in",
        ),
        (
            ("w", Dtype::F32, vec![1], f32s(&[1.0])),
            ("v", Dtype::F32, vec![1], f32s(&[1.0])),
            "a has no tensor `v`, and",
        ),
        (
            ("w", Dtype::F8_E4M3, vec![1], vec![1]),
            ("w", Dtype::F8_E4M3, vec![1], vec![2]),
            "a: tensor `w` differs from copy to copy and is of F8_E4M3",
        ),
        (
            ("n", Dtype::I16, vec![], large),
            ("n", Dtype::I16, vec![], small(1)),
            "the counter `n` would be 32768, which I16 cannot hold",
        ),
    ];
    for (one, two, wanted) in cases {
        let parts = [part(place.write("a", &[one], &[]), 2.0), part(place.write("b", &[two], &[]), 1.0)];
        let told = place.merge(&parts, None).expect_err(wanted).to_string();
        assert!(told.contains(wanted), "{told}");
    }
    let parts = [part(good, 1.0), part(place.path("missing"), 1.0)];
    let told = place.merge(&parts, None).expect_err("it is not there").to_string();
    assert!(told.starts_with("cannot read") && told.contains("missing"), "{told}");
}

#[test]
fn a_file_that_is_cut_or_hostile_is_refused_at_each_byte() {
    let place = Place::new();
    let tensors =
        [("weight", Dtype::F32, vec![2], f32s(&[1.0, 2.0])), ("step", Dtype::I64, vec![], whole(&[3]))];
    let good = place.write("good", &tensors, &[]);
    let bytes = fs::read(&good).expect("it is there");
    let bad = place.path("bad");
    let refused = |content: &[u8]| {
        fs::write(&bad, content).expect("it is written");
        let parts = [part(good.clone(), 1.0), part(bad.clone(), 1.0)];
        let told = place.merge(&parts, None).expect_err("it is no file of ours").to_string();
        assert!(told.contains("bad is no whole safetensors file"), "{told}");
    };
    (0..bytes.len()).for_each(|length| refused(&bytes[..length]));
    refused(&[&bytes[..], b"x"].concat());
    refused(&[&u64::MAX.to_le_bytes()[..], &bytes[8..]].concat());
    let headed =
        |json: &str, data: &[u8]| [&(json.len() as u64).to_le_bytes()[..], json.as_bytes(), data].concat();
    let tensor = |shape: &str, from: u64, to: u64| {
        format!("{{\"w\":{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}}}}")
    };
    refused(&headed(&tensor("[1]", 4, 8), &[0; 8]));
    refused(&headed(&tensor("[1]", 4, 0), &[0; 4]));
    refused(&headed(&tensor("[18446744073709551615,2]", 0, 8), &[0; 8]));
    refused(&headed(&tensor("[4611686018427387904]", 0, 0), &[]));
    refused(&headed("[[[[", &[]));
    refused(&headed(&"[".repeat(100_000), &[]));
    refused(&headed("{\"w\":1}", &[]));
    // Any byte may be wrong: there is an error or a file, and no panic.
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0xff;
        fs::write(&bad, changed).expect("it is written");
        let parts = [part(good.clone(), 1.0), part(bad.clone(), 1.0)];
        let _ = fs::remove_file(place.path("out"));
        let _ = place.merge(&parts, None);
    }
}

#[test]
fn a_tensor_larger_than_a_piece_is_merged_as_well() {
    let place = Place::new();
    let count = 300_000;
    let of = |from: f32| f32s(&(0..count).map(|i| from + i as f32).collect::<Vec<f32>>());
    let file = |name: &str, from: f32| {
        let tensors = [("w", Dtype::F32, vec![count], of(from)), ("v", Dtype::F32, vec![1], f32s(&[from]))];
        place.write(name, &tensors, &[])
    };
    let parts = [part(file("a", 0.0), 1.0), part(file("b", 4.0), 3.0)];
    let (bytes, _) = place.merge(&parts, None).expect("they fit");
    let read = SafeTensors::deserialize(&bytes).expect("a whole file");
    assert_eq!(read.tensor("w").expect("it is there").data(), of(3.0));
    assert_eq!(read.tensor("v").expect("it is there").data(), f32s(&[3.0]));
}

/// Writes and reads by the package that PyTorch's own files are written by. It runs where the package is installed.
#[test]
fn files_of_the_python_package_are_read_and_what_is_merged_is_read_by_it() {
    let place = Place::new();
    let write = "import sys, numpy as n\n\
        from safetensors.numpy import save_file\n\
        for name, w, steps in (('a', 1.0, 3), ('b', 5.0, 5)):\n\
        \x20   save_file({'w': n.array([[w, 2 * w]], n.float32), 'n': n.array(steps, n.int64)}, sys.argv[1] + '/' + name, {'format': 'pt'})\n";
    let read = "import sys\n\
        from safetensors.numpy import load_file\n\
        all = load_file(sys.argv[1] + '/out')\n\
        print(all['w'].tolist(), all['n'].tolist(), all['w'].dtype)\n";
    let python = |script: &str| {
        Command::new("python3").arg("-c").arg(script).arg(place.0.path()).stderr(Stdio::piped()).output()
    };
    if !python("import safetensors.numpy").is_ok_and(|output| output.status.success()) {
        println!(
            "skipped: this needs python3 with the packages safetensors and numpy, which are not installed"
        );
        return;
    }
    let wrote = python(write).expect("it runs");
    assert!(wrote.status.success(), "{}", String::from_utf8_lossy(&wrote.stderr));
    let parts = [part(place.path("a"), 3.0), part(place.path("b"), 1.0)];
    let (_, merged) = place.merge(&parts, None).expect("they fit");
    assert_eq!((merged.averaged, merged.counted), (1, 1));
    let told = python(read).expect("it runs");
    let told = String::from_utf8_lossy(&told.stdout).into_owned() + &String::from_utf8_lossy(&told.stderr);
    assert_eq!(told, "[[2.0, 4.0]] 8 float32\n");
}
