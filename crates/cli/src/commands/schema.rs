//! `schema`: the form of the documents that other commands write as JSON.

use crate::args::SchemaArgs;
use crate::output;
use schedlab_lab::failure::Failure;
use schedlab_report::DOCUMENTS;

/// Prints the JSON Schema of a document.
pub(crate) fn schema(args: &SchemaArgs) -> Result<(), Failure> {
    let document = DOCUMENTS.iter().find(|document| document.name == args.name);
    output::print_exact(&document.expect("the parser takes names of documents only").schema())
}
