package main

import "github.com/slurmlet/slurmlet/slurmconf"

// table is where Slurm's source has the keys of a file, or of a record in it.
type table struct {
	file    slurmconf.Kind
	record  string
	sources []string // path below src, and the array
}

var tables = []table{
	{slurmconf.SlurmConf, "", []string{"common/read_config.c:slurm_conf_options"}},
	{slurmconf.SlurmConf, "NodeName", []string{"common/read_config.c:_nodename_options"}},
	{slurmconf.SlurmConf, "PartitionName", []string{"common/read_config.c:_partition_options"}},
	{slurmconf.SlurmConf, "DownNodes", []string{"common/read_config.c:_downnodes_options"}},
	{slurmconf.SlurmConf, "NodeSet", []string{"common/read_config.c:_nodeset_options"}},
	{slurmconf.SlurmConf, "FrontendName", []string{"common/read_config.c:_frontend_options"}},
	{slurmconf.SlurmConf, "PowerAction", []string{"common/read_config.c:_power_action_options"}},
	{slurmconf.SlurmConf, "SlurmctldHost", []string{"common/read_config.c:_slurmctld_host_options"}},
	{slurmconf.CgroupConf, "", []string{"interfaces/cgroup.c:options"}},
	{slurmconf.GresConf, "", []string{"interfaces/gres.c:_gres_conf_options"}},
	{slurmconf.GresConf, "Name", []string{"interfaces/gres.c:_gres_options"}},
	// A line that begins with NodeName has Name in it, and its keys.
	{slurmconf.GresConf, "NodeName", []string{"interfaces/gres.c:_gres_options"}},
	{slurmconf.TopologyConf, "", []string{
		"plugins/topology/tree/switch_record.c:switch_options",
		"plugins/topology/block/block_record.c:block_options",
		"plugins/topology/ring/ring_record.c:ring_options",
	}},
	{slurmconf.TopologyConf, "SwitchName", []string{"plugins/topology/tree/switch_record.c:_switch_options"}},
	{slurmconf.TopologyConf, "BlockName", []string{"plugins/topology/block/block_record.c:_block_options"}},
	{slurmconf.TopologyConf, "RingName", []string{"plugins/topology/ring/ring_record.c:_ring_options"}},
	{slurmconf.AcctGatherConf, "", []string{
		"plugins/acct_gather_energy/ipmi/acct_gather_energy_ipmi.c:options",
		"plugins/acct_gather_energy/xcc/acct_gather_energy_xcc.c:options",
		"plugins/acct_gather_interconnect/ofed/acct_gather_interconnect_ofed.c:options",
		"plugins/acct_gather_interconnect/sysfs/acct_gather_interconnect_sysfs.c:options",
		"plugins/acct_gather_profile/hdf5/acct_gather_profile_hdf5.c:options",
		"plugins/acct_gather_profile/influxdb/acct_gather_profile_influxdb.c:options",
	}},
	{slurmconf.BurstBufferConf, "", []string{"plugins/burst_buffer/common/burst_buffer_common.c:bb_options"}},
	{slurmconf.HelpersConf, "", []string{"plugins/node_features/helpers/node_features_helpers.c:conf_options"}},
	{slurmconf.HelpersConf, "Feature", []string{"plugins/node_features/helpers/node_features_helpers.c:feature_options"}},
	{slurmconf.HelpersConf, "NodeName", []string{"plugins/node_features/helpers/node_features_helpers.c:feature_options"}},
	{slurmconf.JobContainerConf, "", []string{
		"plugins/job_container/tmpfs/read_jcconf.c:options",
		"plugins/namespace/tmpfs/read_jcconf.c:options",
	}},
	{slurmconf.JobContainerConf, "NodeName", []string{
		"plugins/job_container/tmpfs/read_jcconf.c:ns_options",
		"plugins/namespace/tmpfs/read_jcconf.c:ns_options",
	}},
	{slurmconf.MPIConf, "", []string{"plugins/mpi/pmix/mpi_pmix.c:pmix_options"}},
	{slurmconf.OCIConf, "", []string{"common/oci_config.c:options"}},
	{slurmconf.SlurmdbdConf, "", []string{"slurmdbd/read_config.c:options"}},
}
