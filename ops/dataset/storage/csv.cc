// SPDX-License-Identifier: Apache-2.0
// CSVDataset: the records of files of CSV, a component for each column. A record that is none fails alone.
#include "base/op.h"
#include "storage/lines_and_records.h"
#include "tenon/extras/text/csv.h"
#include "tenon/extras/text/number_text.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// Records, which end with a line where no quoted field is open.
class CsvReader {
 public:
  // header: the first record is none, unless it is not even CSV, which is an error as of any other.
  CsvReader(InputStream stream, const CsvRules& rules, bool header)
      : stream_(std::move(stream)), delimiter_(rules.delimiter), quotes_(rules.quotes), header_(header) {}
  bool Next(std::string_view* record) {
    if (std::exchange(header_, false)) {
      if (!Take()) Fail(TENON_INVALID_ARGUMENT, "Can't read header of file ", stream_.path());
      *record = record_;
      if (!IsCsv()) return true;
    }
    const bool some = Take();
    *record = record_;
    return some;
  }
  uint64_t position() const { return stream_.position(); }
  void SeekTo(uint64_t position) {
    stream_.SeekTo(position);
    header_ = header_ && position == 0;
  }

 private:
  enum class Where {
    kBefore,
    kInside,
    kQuoted,
    kBehindQuote
  };  // a field, its quotes, a quote in it that may be its last

  bool Take() {
    record_.clear();
    if (stream_.Peek(1).empty()) return false;
    const uint64_t begin = position();
    Where where = Where::kBefore;
    for (std::string_view some = Some(); !some.empty(); some = Some()) {
      const size_t end = EndOf(some, &where);
      if (record_.size() + end > InputStream::kMostBytes)
        Fail(TENON_RESOURCE_EXHAUSTED, "the record at byte ", begin, " of ", stream_.path(), " is longer than ",
             InputStream::kMostBytes, " bytes; is a quote open?");
      stream_.Grow(record_, record_.size() + end);
      record_ += some.substr(0, end);
      const char last = end < some.size() ? some[end] : '\0';
      stream_.Drop(std::min(end + 1, some.size()));
      if (end == some.size()) continue;
      if (last == '\r' && stream_.Peek(1) == "\n") stream_.Drop(1);
      break;
    }
    return true;
  }
  bool IsCsv() const {
    std::vector<std::string_view> fields;
    std::deque<std::string> unquoted;
    const char* problem = nullptr;
    (void)SplitCsv(record_, {delimiter_, quotes_, {}}, 0, &fields, &unquoted, &problem);
    return problem == nullptr;
  }
  std::string_view Some() { return stream_.Peek(std::min<size_t>(4096, stream_.buffer_size())); }
  // Where the line's end is in `some`; its size where it has none.
  size_t EndOf(std::string_view some, Where* where) const {
    for (size_t i = 0; i < some.size(); ++i) {
      const char c = some[i];
      const bool ends = csv::IsLineEnd(c);
      if (*where == Where::kQuoted) {
        if (c == '"') *where = Where::kBehindQuote;
      } else if (*where == Where::kBehindQuote && c != delimiter_ && !ends) {
        *where = Where::kQuoted;  // it was one of two, or should have been
      } else if (ends) {
        return i;
      } else if (c == delimiter_) {
        *where = Where::kBefore;
      } else if (*where == Where::kBefore) {
        *where = quotes_ && c == '"' ? Where::kQuoted : Where::kInside;
      }
    }
    return some.size();
  }

  InputStream stream_;
  const char delimiter_;
  const bool quotes_;
  bool header_;  // is to come
  std::string record_;
};

template <bool kExcludes>
struct CsvDataset final : FileDataset<CsvReader> {
  struct Attrs : Node {
    explicit Attrs(CreateContext& c) : Node(c), defaults(c.InputRange("record_defaults")) {}
    Range defaults;
  };
  // inputs: filenames, compression_type, buffer_size, header, field_delim, use_quote_delim, na_value, select_cols,
  // record_defaults, exclude_cols.
  CsvDataset(const Attrs& attrs, const RunContext& c)
      : FileDataset(attrs, c, 1, 2), header(BoolOf(c, 3)), missing(StringAt(c.input_view(6), 0)) {
    if (IntOf(c, 2) <= 0) Fail(TENON_INVALID_ARGUMENT, who(), ": buffer_size should be positive");
    const std::string_view delimiter = StringAt(c.input_view(4), 0);
    if (delimiter.size() != 1)
      Fail(TENON_INVALID_ARGUMENT, who(), ": field_delim should be only 1 char, it is '", delimiter, "'");
    rules.delimiter = delimiter[0];
    rules.quotes = BoolOf(c, 5);
    for (int32_t i = 0; i < attrs.defaults.count; ++i) {
      defaults.push_back(KeptTensor::OfInput(c, attrs.defaults.begin + i));
      const tenon_tensor_view view = defaults.back().view();
      if (view.dl.ndim > 1 || sdk::Count(view) > 1)
        Fail(TENON_INVALID_ARGUMENT, who(),
             ": There should only be 1 default per field, or none, but the shape of that of field ", i, " is ",
             ShapeOf(view));
    }
    const std::vector<int64_t> selected = Columns(c, 7, "select_cols");
    const std::vector<int64_t> excluded =
        kExcludes ? Columns(c, c.input_count() - 1, "exclude_cols") : std::vector<int64_t>();
    if (!selected.empty() && selected.size() != types().size())
      Fail(TENON_INVALID_ARGUMENT, who(), ": select_cols should match output size");
    if (!selected.empty() && !excluded.empty())
      Fail(TENON_INVALID_ARGUMENT, who(), ": Either select_cols or exclude_cols should be empty");
    rules.columns = selected;
    // One more than there are outputs, so that a record which has it is found to have too many.
    for (int64_t column = 0; !excluded.empty() && rules.columns.size() <= types().size(); ++column)
      if (!std::binary_search(excluded.begin(), excluded.end(), column)) rules.columns.push_back(column);
    if (!rules.columns.empty()) rules.columns.push_back(INT64_MAX);  // no field of a record is left unread
  }
  CsvReader Read(InputStream stream, size_t) const override { return CsvReader(std::move(stream), rules, header); }

  bool gives_texts() const override { return false; }
  Element ElementOf(const Pass& pass, std::string_view record) const override {
    std::vector<std::string_view> fields;
    std::deque<std::string> unquoted;
    const char* problem = nullptr;
    size_t found = SplitCsv(record, rules, types().size(), &fields, &unquoted, &problem);
    if (problem != nullptr)
      Fail(TENON_INVALID_ARGUMENT, who(), ": ", problem, ": in record '", record.substr(0, 100), "'");
    if (record.empty() && (rules.columns.empty() || rules.columns[0] == 0))
      found = (fields.emplace_back(), 1);  // a line without anything is one field
    if (found != types().size())
      Fail(TENON_INVALID_ARGUMENT, who(), ": Expect ", types().size(), " fields but have ", found, " in record '",
           record.substr(0, 100), "'");
    Element element;
    for (size_t i = 0; i < fields.size(); ++i)
      DispatchCsvType(types()[i], [&](auto zero) { element.push_back(Component<decltype(zero)>(pass, fields[i], i)); });
    return element;
  }

 private:
  template <class T>
  KeptTensor Component(const Pass& pass, std::string_view field, size_t i) const {
    if (field.empty() || field == missing) {
      if (sdk::Count(defaults[i].view()) == 0)
        Fail(TENON_INVALID_ARGUMENT, who(), ": Field ", i, " is required but missing in record!");
      return CopyPart([&pass](uint32_t dtype, Dims dims,
                              uint64_t extra_bytes) { return pass.work().NewTensor(dtype, dims, extra_bytes); },
                      defaults[i].view(), 0, {});
    }
    if constexpr (std::is_same_v<T, std::string_view>) {
      return NewString(pass.work(), field);
    } else {
      T value{};
      if (!ReadNumber(field, &value))
        Fail(TENON_INVALID_ARGUMENT, who(), ": Field ", i, " in record is not a valid ", TypeName(types()[i]), ": ",
             field.substr(0, 100));
      return NewScalar<T>(pass.work(), types()[i], value);
    }
  }
  std::vector<int64_t> Columns(const RunContext& c, int32_t input, const char* name) const {
    std::vector<int64_t> columns(c.input<int64_t>(input), c.input<int64_t>(input) + sdk::Count(c.input_view(input)));
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] < 0)
        Fail(TENON_INVALID_ARGUMENT, who(), ": ", name, " should be non-negative indices; [", i, "] is ", columns[i]);
      if (i > 0 && columns[i] <= columns[i - 1])
        Fail(TENON_INVALID_ARGUMENT, who(), ": ", name, " should be strictly increasing indices; [", i, "] is ",
             columns[i], " behind ", columns[i - 1]);
    }
    return columns;
  }
  const bool header;
  const std::string missing;
  CsvRules rules;
  Element defaults;
};

}  // namespace

TENON_KERNEL(kCsvDatasetKernel) = Registration<MakeDataset<CsvDataset<false>>>("CSVDataset", kMakesDataset);
TENON_KERNEL(kExperimentalCsvDatasetKernel) = Registration<MakeDataset<CsvDataset<false>>>("ExperimentalCSVDataset",
                                                                                           kMakesDataset);
TENON_KERNEL(kCsvDatasetV2Kernel) = Registration<MakeDataset<CsvDataset<true>>>("CSVDatasetV2", kMakesDataset);

#define TENON_CSV_INPUTS                                                                                 \
  "filenames: string, compression_type: string, buffer_size: int64, header: bool, field_delim: string, " \
  "use_quote_delim: bool, na_value: string, "                                                            \
  "select_cols: int64, record_defaults: output_types"
#define TENON_CSV_RANKS                                                                                             \
  "rank(filenames) <= 1; path(filenames); rank(compression_type) == 0; rank(buffer_size) == 0; rank(header) == 0; " \
  "rank(field_delim) == 0; "                                                                                        \
  "rank(use_quote_delim) == 0; rank(na_value) == 0; rank(select_cols) == 1"
#define TENON_CSV_TYPES \
  "output_types: list({float, double, int32, int64, string}) >= 1; output_shapes: list(shape) >= 1"

static constexpr std::string_view kDoc =
    "The records of files of CSV: a component for each column, or each of select_cols; a field that is empty, or "
    "na_value, is its column's default.";

TENON_OP(kCSVDataset) = DefineDataset({
    .name = "CSVDataset",
    .inputs = TENON_CSV_INPUTS,
    .attrs = TENON_CSV_TYPES,
    .constraints = TENON_CSV_RANKS,
    .doc = kDoc,
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
});

TENON_OP(kExperimentalCSVDataset) = DefineDataset({
    .name = "ExperimentalCSVDataset",
    .inputs = TENON_CSV_INPUTS,
    .attrs = TENON_CSV_TYPES,
    .constraints = TENON_CSV_RANKS,
    .doc = kDoc,
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
});

TENON_OP(kCSVDatasetV2) = DefineDataset({
    .name = "CSVDatasetV2",
    .inputs = TENON_CSV_INPUTS ", exclude_cols: int64",
    .attrs = TENON_CSV_TYPES,
    .constraints = TENON_CSV_RANKS "; rank(exclude_cols) == 1",
    .doc = kDoc,
    .traits = TENON_OP_STATEFUL | TENON_OP_IO,
});

}  // namespace tenon::ops
