#include "usage.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <optional>

namespace phidias::cli {
namespace {

// A program of two commands, and what it answers to an argument list.
std::string answer(std::vector<std::string> arguments) {
  CLI::App app("", "phidias");
  app.require_subcommand(1);
  std::string model, prompt, text, ids, what;
  std::optional<unsigned> threads;
  double top_p = 1;
  CLI::App* generate = app.add_subcommand("generate", "");
  generate->add_option("-m,--model", model, "A folder or a file")->required();
  CLI::Option* kv = generate->add_option("--kv", what, "Type of the key-value cache");
  generate->add_option("-t,--threads", threads, "Threads")->excludes(kv);
  generate->add_option("--cache-budget", what, "MiB that it may take");
  generate->add_option("-p,--prompt", prompt, "The text to go on with");
  CLI::App* input = generate->add_option_group("input", "");
  input->add_option("--ids", ids, "Ids");
  input->add_option("--text", text, "Text");
  input->require_option(0, 1);
  generate->add_option_group("sampling", "")->add_option("--top-p", top_p, "Their mass");
  CLI::App* bench = app.add_subcommand("bench", "");
  bench->add_option("what", what, "")->check(CLI::IsMember({"kernels", "machine"}));
  bench->add_option("-m,--model", model, "A folder or a file");
  bench->add_option("--kv", what, "Type of the cache");
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::Error& fault) {
    return usage_fault(&app, fault);
  }
  return "";
}

TEST(Usage, UnderstoodArgumentsAreNoFault) {
  EXPECT_EQ(answer({"generate", "-m", "x", "-p", "hello", "--top-p", "0.5"}), "");
}

TEST(Usage, AnUnknownCommandNamesTheOneThatWasMeant) {
  EXPECT_EQ(answer({"genrate", "-p", "x"}),
            "phidias: there is no command \"genrate\"; did you mean generate?; see `phidias "
            "--help`\n");
  EXPECT_EQ(answer({"banana"}), "phidias: there is no command \"banana\"; see `phidias --help`\n");
  EXPECT_NE(answer({}).find("phidias chat -m MODEL"), std::string::npos);
}

TEST(Usage, AMisspeltOptionNamesTheOneThatWasMeant) {
  for (const char* slip : {"--promt", "--prompts", "--porompt", "--prom", "--PROMPT"}) {
    const std::string fault = answer({"generate", "-m", "x", slip, "hello"});
    EXPECT_NE(fault.find("did you mean --prompt?"), std::string::npos) << fault;
  }
  EXPECT_NE(answer({"generate", "-m", "x", "--topp", "1"}).find("--top-p?"), std::string::npos);
  EXPECT_EQ(answer({"generate", "-m", "x", "--banana", "1"}),
            "phidias: generate has no option --banana; see `phidias generate --help`\n");
}

TEST(Usage, AnOptionOfAnotherNameIsFoundByItsHelp) {
  EXPECT_NE(answer({"bench", "--cache", "q8"}).find("no option --cache; did you mean --kv?"),
            std::string::npos);
  EXPECT_NE(answer({"generate", "--cache", "q8"}).find("did you mean --cache-budget, --kv?"),
            std::string::npos);
}

TEST(Usage, AWordByItselfIsToldItsOption) {
  EXPECT_NE(answer({"generate", "-m", "x", "hi"})
                .find("generate does not take \"hi\" by itself; a text is given with -p"),
            std::string::npos);
  EXPECT_NE(answer({"generate", "-m", "x", "-p", "hello", "world"}).find("in quotes"),
            std::string::npos);
  for (const char* model : {"owner/name", "model.gguf"}) {
    EXPECT_NE(answer({"generate", model}).find("the model is given with -m"), std::string::npos);
    EXPECT_NE(answer({"bench", model}).find("the model is given with -m"), std::string::npos);
  }
}

TEST(Usage, OptionsBeforeTheCommandAreToldTheirPlace) {
  EXPECT_NE(answer({"-m", "generate"}).find("as in `phidias generate -m ...`"), std::string::npos);
}

TEST(Usage, AMissingOptionSaysWhatItIs) {
  EXPECT_EQ(answer({"generate", "-p", "x"}),
            "phidias: --model is required: A folder or a file; see `phidias generate --help`\n");
}

TEST(Usage, AValueThatIsMissingOrOfAnotherKindIsToldSo) {
  EXPECT_NE(answer({"generate", "-m", "x", "-p"}).find("--prompt has no value"), std::string::npos);
  EXPECT_NE(
      answer({"generate", "-m", "x", "-p", "-t", "2"}).find("--prompt has no value before -t"),
      std::string::npos);
  EXPECT_NE(answer({"generate", "-m", "x", "-t", "two"})
                .find("--threads takes a whole number, not negative; \"two\" is none"),
            std::string::npos);
  EXPECT_NE(answer({"generate", "-m", "x", "--top-p", "a"}).find("takes a number; \"a\" is none"),
            std::string::npos);
}

TEST(Usage, AValueThatIsNoneOfTheKnownIsToldThem) {
  EXPECT_NE(answer({"bench", "q8"}).find("what takes one of kernels, machine; \"q8\" is none;"),
            std::string::npos);
}

TEST(Usage, OptionsThatExcludeEachOtherAreToldSo) {
  EXPECT_NE(answer({"generate", "-m", "x", "-t", "1", "--kv", "q8"})
                .find("--kv does not go with --threads"),
            std::string::npos);
}

TEST(Usage, OptionsOfWhichOneGoesAreListed) {
  EXPECT_NE(answer({"generate", "-m", "x", "--ids", "1", "--text", "a"})
                .find("give only one of --ids, --text;"),
            std::string::npos);
}

}  // namespace
}  // namespace phidias::cli
