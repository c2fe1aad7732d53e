#include "runtime/namespace/disk_space.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "base/ids.h"
#include "base/unique_fd.h"

namespace warren::runtime {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kGib = 1ULL << 30;
constexpr std::uint64_t kFloor = 2 * kGib;

TEST(DiskSpace, AnImageIsAsLargeAsWantedWhereThereIsRoom) {
  EXPECT_EQ(image_size(200 * kGib, 0, 500 * kGib, kFloor), 200 * kGib);
}

TEST(DiskSpace, AnImageNeverGrowsIntoTheFloor) {
  EXPECT_EQ(image_size(200 * kGib, 0, 50 * kGib, kFloor), 48 * kGib);
  EXPECT_EQ(image_size(200 * kGib, 30 * kGib, 20 * kGib, kFloor), 48 * kGib)
      << "what it takes already is its own";
}

TEST(DiskSpace, AFullDiskStillGetsASmallImage) {
  EXPECT_EQ(image_size(200 * kGib, 0, kFloor / 2, kFloor), kSmallestImage);
  EXPECT_EQ(image_size(200 * kGib, 0, kFloor, kFloor), kSmallestImage);
  EXPECT_EQ(image_size(kSmallestImage / 2, 0, 0, kFloor), kSmallestImage / 2) << "unless less was wanted";
}

TEST(DiskSpace, ThereIsRoomAboveTheFloorAndNoneBelow) {
  const auto here = std::filesystem::temp_directory_path();
  EXPECT_TRUE(check_room(here, here, 0));
  const auto refused = check_room(here, here, 1ULL << 62);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(refused.error().message(), HasSubstr("disk is nearly full"));
}

TEST(DiskSpace, ASparseFileTakesLessThanItsSize) {
  const auto path = std::filesystem::temp_directory_path() / ("warren-sparse-" + random_hex(6));
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ASSERT_TRUE(file);
  ASSERT_EQ(::ftruncate(file.get(), 1 << 30), 0);
  EXPECT_LT(allocated_bytes(path), 1U << 20);
  ::unlink(path.c_str());
  EXPECT_EQ(allocated_bytes(path), 0U);
}

}  // namespace
}  // namespace warren::runtime
