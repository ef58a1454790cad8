//! The corpus of the fuzz targets, replayed: every input that ever told the parsers something new, and every one that
//! broke them.

#[path = "../../fuzz/parsers.rs"]
mod parsers;

use std::fs;
use std::path::Path;

#[test]
fn every_parser_gets_through_its_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (name, parse) in parsers::ALL {
        let folder = corpus.join(name);
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut seen = 0;
        for entry in entries {
            let path = entry.expect("an entry").path();
            let content = fs::read(&path).expect("readable");
            println!("{}", path.display());
            parse(&content);
            seen += 1;
        }
        assert!(seen >= 10, "{name}: {seen} inputs");
    }
}
