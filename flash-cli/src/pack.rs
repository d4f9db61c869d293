//! `flash pack` and `flash unpack`: packages of kernels, as [`Package`] reads and writes them.

use crate::Refused;
use flash_core::devices::{Outcome, Package, PackagedCode};
use flash_types::descriptor::KernelDescriptor;
use serde_json::json;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

fn refused(path: &Path, why: impl std::fmt::Display) -> anyhow::Error {
    Refused::new(format!("{}: {why}", path.display())).into()
}

/// Makes a package of a manifest and the files that it names, which lie beside it. The answer is a line.
pub fn pack(manifest: &Path, output: Option<PathBuf>) -> anyhow::Result<String> {
    let text = fs::read_to_string(manifest).map_err(|e| refused(manifest, e))?;
    let folder = manifest.parent().unwrap_or(Path::new(""));
    let package =
        Package::new(&text, |file| fs::read(folder.join(file))).map_err(|e| refused(manifest, words(e)))?;
    let output = output.unwrap_or_else(|| PathBuf::from(format!("{}.ha", package.manifest().name)));
    if output.extension().is_none_or(|ending| ending != "ha") {
        return Err(refused(
            &output,
            "expected a name that ends in `.ha`: others are no packages in a directory of plugins",
        ));
    }
    let bytes = package.to_bytes();
    // A program that looks for packages meanwhile sees the old one or the new one.
    let mut part = output.clone().into_os_string();
    part.push(".part");
    let written = fs::write(&part, &bytes).and_then(|()| fs::rename(&part, &output));
    written.map_err(|e| {
        let _ = fs::remove_file(&part);
        refused(&output, e)
    })?;
    let (kernels, files) = (package.kernels().len(), package.files().count());
    Ok(format!("{}: {kernels} kernels, {files} files, {} bytes\n", output.display(), bytes.len()))
}

fn read(path: &Path) -> anyhow::Result<Package> {
    let file = fs::File::open(path).map_err(|e| refused(path, e))?;
    Package::read(BufReader::new(file)).map_err(|e| refused(path, words(e)))
}

/// A fault without the word `refused`, which is for plugins.
fn words(outcome: Outcome) -> String {
    match outcome {
        Outcome::Refused { expected, found } => format!("expected {expected}, found {found}"),
        other => other.to_string(),
    }
}

/// What a package has.
pub fn list(path: &Path, json: bool) -> anyhow::Result<String> {
    let package = read(path)?;
    let manifest = package.manifest();
    let kernels = || manifest.kernels.iter().zip(package.kernels());
    if json {
        let code =
            |code: &PackagedCode| json!({"target": code.target, "file": code.file, "name": code.name()});
        let kernel = |(kernel, descriptor): (&flash_core::devices::PackagedKernel, &KernelDescriptor)| {
            json!({
                "name": kernel.name, "alias": kernel.alias, "sw_fid": kernel.sw_fid, "sw_clid": kernel.sw_clid,
                "signature": descriptor.signature(),
                "implementations": kernel.implementations.iter().map(code).collect::<Vec<_>>(),
            })
        };
        let answer = json!({
            "name": manifest.name, "version": manifest.version, "description": manifest.description,
            "kernels": kernels().map(kernel).collect::<Vec<_>>(),
            "files": package.files().map(|(name, content)| json!({"name": name, "bytes": content.len()})).collect::<Vec<_>>(),
        });
        return Ok(format!("{answer:#}\n"));
    }
    let mut out = format!("{} {}\n", manifest.name, manifest.version);
    if !manifest.description.is_empty() {
        writeln!(out, "{}", manifest.description)?;
    }
    for (kernel, descriptor) in kernels() {
        let arguments: Vec<String> =
            descriptor.arguments.iter().map(|argument| format!("{}: {argument}", argument.name)).collect();
        let names = [("alias", &kernel.alias), ("sw_fid", &kernel.sw_fid), ("sw_clid", &kernel.sw_clid)];
        let names: String =
            names.iter().filter_map(|(what, name)| Some(format!(", {what} {}", name.as_deref()?))).collect();
        writeln!(
            out,
            "\n{}({}) over {}{names}",
            kernel.name,
            arguments.join(", "),
            kernel.dimensions.join(", ")
        )?;
        for code in &kernel.implementations {
            let processor = code.processor.as_deref().map_or_else(String::new, |of| format!(", {of}"));
            writeln!(out, "  {:<10} {} ({}{processor})", code.target, code.name(), code.file)?;
        }
    }
    writeln!(out)?;
    for (name, content) in package.files() {
        writeln!(out, "{:>10} bytes  {name}", content.len())?;
    }
    Ok(out)
}

/// Writes the files of a package below a folder. Files that are there stay, and are an error.
pub fn unpack(path: &Path, into: &Path) -> anyhow::Result<String> {
    let package = read(path)?;
    for (name, content) in package.files() {
        let file = into.join(name);
        let written = fs::create_dir_all(file.parent().unwrap_or(into))
            .and_then(|()| fs::File::create_new(&file))
            .and_then(|mut new| new.write_all(content));
        written.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => refused(&file, "expected no such file, found one"),
            _ => refused(&file, error),
        })?;
    }
    Ok(format!("{}: {} files\n", into.display(), package.files().count()))
}
